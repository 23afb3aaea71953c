#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh TRIVET [KILLS]: a sweep on a real Slurm.
#
# Starts a Slurm of one node on the loopback device, submits a sweep with --slurm, collects the results, and compares the
# table of points with that of threads, byte for byte. With KILLS above 0, kills and requeues as many tasks while they
# run, and kills the controller. Everything is in a temporary folder; the daemons are ended by their numbers.
#
# Exit status 77 (skipped), with the reason, without root or without the packages slurm-wlm and munge.
set -u
trivet=$(readlink -f "$1")
kills=${2:-0}
root=$(readlink -f "$(dirname "$0")/../..")

skip()
{
    echo "skipped: $1"
    exit 77
}
[ "$(id -u)" = 0 ] || skip "a Slurm of its own needs root"
PATH=$PATH:/usr/sbin:/sbin
for tool in slurmctld slurmd sbatch squeue scontrol munged setpriv; do
    command -v $tool >/dev/null || skip "no $tool; install slurm-wlm and munge"
done
id munge >/dev/null 2>&1 || skip "no user munge"

work=$(mktemp -d /tmp/trivet-slurm-XXXXXX)
munged=
failed=0
end_process()
{
    [ -n "$1" ] && kill "$1" 2>/dev/null
    for _ in $(seq 50); do
        [ -n "$1" ] && kill -0 "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -9 "$1" 2>/dev/null
}
finish()
{
    [ -s "$work/job" ] && scancel "$(cat "$work/job")" 2>/dev/null
    for daemon in slurmd slurmctld; do
        end_process "$(cat "$work/$daemon.pid" 2>/dev/null)"
    done
    end_process "$munged"
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM
check()
{
    if [ "$2" = 0 ]; then
        echo "ok: $1"
    else
        echo "FAILED: $1"
        failed=$((failed + 1))
    fi
}

# munge with a key and a socket of its own
mkdir -p "$work/munge" "$work/state" "$work/spool"
chmod 755 "$work"
head -c 1024 /dev/urandom >"$work/munge/key"
chown -R munge "$work/munge"
chmod 755 "$work/munge"
chmod 400 "$work/munge/key"
socket=$work/munge/socket
setpriv --reuid=munge --regid="$(id -g munge)" --clear-groups munged --foreground --key-file="$work/munge/key" --socket="$socket" \
    --pid-file="$work/munge/pid" --log-file="$work/munge/log" --seed-file="$work/munge/seed" >"$work/munged.out" 2>&1 &
munged=$!
for _ in $(seq 50); do
    [ -S "$socket" ] && break
    sleep 0.1
done
[ -S "$socket" ] || skip "munged does not start: $(tail -n 1 "$work/munged.out")"

host=$(hostname -s)
free_port()
{
    /usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
cat >"$work/slurm.conf" <<EOF
ClusterName=trivet
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
AuthType=auth/munge
AuthInfo=socket=$socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=2
MinJobAge=600
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
EOF
export SLURM_CONF="$work/slurm.conf"
slurmctld -f "$SLURM_CONF" || skip "slurmctld does not start"
slurmd -f "$SLURM_CONF" || skip "slurmd does not start: $(tail -n 1 "$work/slurmd.log")"
for _ in $(seq 100); do
    sinfo -h -o %t 2>/dev/null | grep -q idle && break
    sleep 0.3
done
sinfo -h -o %t 2>/dev/null | grep -q idle || skip "the node does not become idle"
slurmd -V

# A space that takes the tasks a moment.
cat >"$work/sweep.ini" <<EOF
[sweep]
objectives = cycles, cost
search = random
budget = 3000
seed = 2
[workload attention]
program = $root/examples/pccx/attention.s
[workload ffn]
program = $root/examples/pccx/ffn.s
[target pccx]
gemv.cores = 1..16 step 1
stream.bytes_per_cycle = 4, 8, 12, 16, 20, 24, 28, 32, 36, 40
acp.bytes_per_cycle = 2, 4, 6, 8, 10, 12, 14, 16, 18, 20
memory.bytes_per_cycle = 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96
[expressions]
cost = gemv.cores * 32 + stream.bytes_per_cycle * 8 + acp.bytes_per_cycle * 6 + memory.bytes_per_cycle
EOF
cd "$work" || exit 1
"$trivet" sweep sweep.ini -q -o threads.sqlite --csv threads.csv --threads 2
check "the sweep on threads" $?
"$trivet" sweep sweep.ini --slurm "$work/a folder's results" --tasks 4 --sbatch=--parsable --sbatch=--time=10 >job
check "the sweep is submitted" $?
job=$(tail -n 1 job)

waiting()
{
    squeue -h -j "$job" -o %T 2>/dev/null | grep -q .
}
# Ends tasks without a warning; Slurm starts them again when they are requeued.
number=0
while [ "$number" -lt "$kills" ]; do
    number=$((number + 1))
    sleep 0.$((number % 7 + 1))
    for pid in $(pgrep -f "$work/sweep.ini --slice" | head -n 1); do
        kill -9 "$pid" 2>/dev/null
    done
    scontrol requeue "${job}_$((number % 4))" 2>/dev/null
    if [ $((number % 2)) = 0 ]; then
        kill -9 "$(cat slurmctld.pid)" 2>/dev/null
        sleep 0.5
        slurmctld -f "$SLURM_CONF"
        check "the controller starts again" $?
    fi
done
for _ in $(seq 600); do
    waiting || break
    sleep 0.5
done
waiting
check "all tasks have ended" $((1 - $?))
# A task that was killed is not started again by itself: the array is submitted once more and does only what is missing.
"$trivet" sweep sweep.ini --slurm "$work/a folder's results" --tasks 4 --sbatch=--parsable >job
check "the missing points are submitted" $?
job=$(tail -n 1 job)
for _ in $(seq 600); do
    waiting || break
    sleep 0.5
done
for task in 0 1 2 3; do ls "a folder's results/slice-$task-of-4-0.jsonl" || exit 1; done >/dev/null
check "each task has its results" $?
"$trivet" sweep collect "a folder's results"/slice-*.jsonl -o slurm.sqlite
check "the results are collected" $?
"$trivet" sweep sweep.ini -o slurm.sqlite --csv slurm.csv >summary
check "the sweep is complete" $?
grep -q '; 0 results computed, the others known' summary
check "no result is missing" $?
cmp threads.csv slurm.csv
check "points on Slurm and on threads are equal" $?
cat "a folder's results"/*.jsonl | sort | uniq -d | grep -q .
check "no result is doubled" $((1 - $?))
if [ "$failed" != 0 ]; then
    tail -n 20 slurmctld.log slurmd.log "a folder's results"/*.log
fi
echo "$failed failed"
[ "$failed" = 0 ]
