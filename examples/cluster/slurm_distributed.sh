#!/usr/bin/env bash
# One search on all GPUs of several nodes under Slurm, which JAX recognises by itself:
#     sbatch examples/cluster/slurm_distributed.sh
# One process a GPU, each of which sees all GPUs of its node and takes the one of its number. All processes read the same
# SFTs; the first writes the checkpoint and the table. Two minutes before its time is up the search is told to stop
# (SIGTERM), keeps its checkpoint, and the job queues itself again.
#SBATCH --job-name=jfstat
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --mem-per-cpu=4G
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=search-%j.out

set -u
srun --gpu-bind=none jfstat search --DataFiles 'sfts/*.sft' --Freq 100 --FreqBand 1 \
    --Alpha 3.5170 --AlphaBand 0.006 --Delta -0.8310 --DeltaBand 0.004 \
    --f1dot -3e-14 --f1dotBand 3.5e-14 --metricMismatch 0.1 --NumCandidatesToKeep 1000 \
    --distributed --checkpoint search.checkpoint --outputFstat found.ecsv
status=$?
if ((status == 143)); then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
