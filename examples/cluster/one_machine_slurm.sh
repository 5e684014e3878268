#!/usr/bin/env bash
# Slurm on one machine, to try the files of this folder before they go to a cluster. With Debian's packages
# (apt-get install slurm-wlm munge), as root or with sudo:
#     examples/cluster/one_machine_slurm.sh start FOLDER    # the daemons' configuration, state and logs lie in FOLDER
#     export SLURM_CONF=FOLDER/slurm.conf
#     sbatch examples/cluster/slurm_units.sh
#     examples/cluster/one_machine_slurm.sh stop FOLDER
# It is the plainest configuration, without cgroups, so that it also works in containers: jobs are not confined to the
# cores and the memory that they ask for. There is one node, without GPUs: give slurm_distributed.sh
# --nodes=1 --ntasks-per-node=2 --gpus-per-node=0 --cpus-per-task=1 on sbatch's command line.

set -eu
usage="usage: $0 start|stop FOLDER"
action=${1:?$usage} folder=$(realpath -m "${2:?$usage}")

stop() {
    for pid in "$folder"/*.pid; do
        [[ -e $pid ]] && kill "$(cat "$pid")" 2>/dev/null || true
    done
}

if [[ $action == stop ]]; then
    stop
    exit
elif [[ $action != start ]]; then
    echo "$usage" >&2
    exit 1
fi

mkdir -p "$folder"/{state,spool,munge}
chmod 700 "$folder/munge"
dd if=/dev/urandom of="$folder/munge/key" bs=128 count=1 status=none
chmod 600 "$folder/munge/key"
host=$(hostname -s)
memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)
cat >"$folder/slurm.conf" <<EOF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$(id -un)
SlurmctldPidFile=$folder/slurmctld.pid
SlurmctldLogFile=$folder/slurmctld.log
StateSaveLocation=$folder/state
SlurmdPidFile=$folder/slurmd.pid
SlurmdLogFile=$folder/slurmd.log
SlurmdSpoolDir=$folder/spool
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=30
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$memory State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
EOF
printf 'CgroupAutomount=no\n' >"$folder/cgroup.conf"

munged --key-file="$folder/munge/key" --socket="$folder/munge/socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munge/log" --seed-file="$folder/munge/seed" --force 2>"$folder/munged.err"
export SLURM_CONF=$folder/slurm.conf
slurmctld
slurmd
for ((k = 0; k < 30; k++)); do
    if [[ $(sinfo -h -o %t) == idle ]]; then
        break
    fi
    sleep 1
done
sinfo
