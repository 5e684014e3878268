#!/usr/bin/env bash
# A search in 64 units under Slurm: mkdir -p units; sbatch examples/cluster/slurm_units.sh
# Afterwards: jfstat merge units/*.ecsv --outputFstat found.ecsv
#
# Two minutes before its time is up a unit is told to stop (SIGTERM), keeps its checkpoint and queues itself again.
#SBATCH --job-name=jfstat
#SBATCH --array=1-64
#SBATCH --cpus-per-task=2
#SBATCH --mem=4G
#SBATCH --time=02:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=units/%a.out
# (Slurm opens this file before the script runs: units/ must be there)
# for a GPU each: #SBATCH --gpus=1

set -u
unit=$SLURM_ARRAY_TASK_ID

jfstat search --DataFiles 'sfts/*.sft' --Freq 100 --FreqBand 1 \
    --Alpha 3.5170 --AlphaBand 0.006 --Delta -0.8310 --DeltaBand 0.004 \
    --f1dot -3e-14 --f1dotBand 3.5e-14 --metricMismatch 0.1 --NumCandidatesToKeep 1000 \
    --unit "$unit/64" --checkpoint "units/$unit.checkpoint" --outputFstat "units/$unit.ecsv" &
search=$!
trap 'kill -TERM "$search"' TERM
wait "$search"
status=$?
if ((status > 128)) && kill -0 "$search" 2>/dev/null; then # the signal ended the first wait only
    wait "$search"
    status=$?
fi
if ((status == 143)); then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$unit"
fi
exit "$status"
