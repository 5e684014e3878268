#!/usr/bin/env bash
# An interpolating search over segments, in patches of the sky, under Slurm: a patch and a GPU a job
#     mkdir -p patches; sbatch --array=1-"$(wc -l < patches.txt)" examples/cluster/slurm_patches.sh
# patches.txt has a line for each patch: least right ascension, width, least declination, width, all in rad. How it is
# made, and how the tables patches/*.ecsv are joined afterwards: docs/searching.md, "Searches of many patches".
# (Many clusters allow 1000 jobs in an array: submit more patches in several arrays, --array=1001-2000 and so on.)
#
# Two minutes before its time is up a job is told to stop (SIGTERM), keeps its checkpoint and queues itself again.
#SBATCH --job-name=jfstat
#SBATCH --gpus=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=64G
#SBATCH --time=02:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=patches/%a.out
# (Slurm opens this file before the script runs: patches/ must be there)

set -u
patch=$SLURM_ARRAY_TASK_ID
read -r alpha alpha_width delta delta_width < <(sed -n "${patch}p" patches.txt)

jfstat search --DataFiles 'sfts/*.sft' --segmentList segments.txt --refTime 1178690304 --Freq 171 --FreqBand 1 \
    --Alpha "$alpha" --AlphaBand "$alpha_width" --Delta "$delta" --DeltaBand "$delta_width" \
    --f1dot -1e-11 --f1dotBand 1e-11 --metricMismatch 0.3 --cohMaxMismatch 0.2 --NumCandidatesToKeep 1000 \
    --checkpoint "patches/$patch.checkpoint" --outputFstat "patches/$patch.ecsv" &
search=$!
trap 'kill -TERM "$search"' TERM
wait "$search"
status=$?
if ((status > 128)) && kill -0 "$search" 2>/dev/null; then # the signal ended the first wait only
    wait "$search"
    status=$?
fi
if ((status == 143)); then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$patch"
fi
exit "$status"
