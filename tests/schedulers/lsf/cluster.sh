#!/bin/sh
# cluster.sh NAME ARGUMENTS: what stands for LSF with CSM where the machine has none. By links it is bsub, jsrun, bjobs, bkill and ssh.
# $LSF holds the nodes' processes (node.NAME), their disks (disk.NAME) and the job's.
set -eu

# on NODE COMMAND: with the mounts and the host name of the node, and the environment of a login.
on() {
  pid=$(cat "$LSF/node.$1")
  shift
  nsenter --target "$pid" --mount --uts -- "$@"
}

# node NAME: becomes it. The launch node has no NVMe.
node() {
  hostname "$1"
  mount --bind "$LSF/hosts" /etc/hosts
  mount -t tmpfs tmpfs /mnt
  case $1 in
    batch*) ;;
    *) mkdir -p /mnt/bb "$LSF/disk.$1" && mount --bind "$LSF/disk.$1" /mnt/bb ;;
  esac
  echo $$ >"$LSF/node.$1.new" && mv "$LSF/node.$1.new" "$LSF/node.$1"
  exec sleep infinity
}

# What CSM runs as root on every compute node before and after the job (privileged_prolog, privileged_epilog).
prologue() { for each in $COMPUTE; do on "$each" mkdir -p -m 0700 "/mnt/bb/$USER"; done; }
epilogue() {
  for each in $COMPUTE; do
    on "$each" env CSM_PRIMARY_JOB_ID="$JOB" CSM_SECONDARY_JOB_ID=0 CSM_USER_NAME="$USER" CSM_ALLOCATION_ID=1 \
      "$EPILOGUE" --type allocation --user_flags nvme --sys_flags '' >>"$LSF/epilogue" 2>&1 &
  done
  wait
  echo over >"$LSF/over"
}

# bsub SCRIPT: options are those of its lines.
bsub() {
  grep -qi '^#BSUB -alloc_flags.*nvme' "$1" || { echo "no NVMe was asked for" >&2; exit 255; }
  prologue
  { echo batch1; for each in $COMPUTE; do printf '%s\n%s\n' "$each" "$each"; done; } >"$LSF/hostfile"
  echo "Job <$JOB> is submitted to default queue <batch>."
  export LSB_JOBID="$JOB" LSB_JOBINDEX=0 LSB_DJOB_HOSTFILE="$LSF/hostfile"
  (
    trap '' HUP
    setsid nsenter --target "$(cat "$LSF/node.batch1")" --mount --uts -- bash "$1" >"$LSF/out" 2>&1 &
    echo $! >"$LSF/job"
    status=0; wait $! || status=$?
    # It appears whole.
    echo "$status" >"$LSF/status.new"
    mv "$LSF/status.new" "$LSF/status"
    epilogue
  ) >/dev/null 2>&1 &
}

bkill() { env kill -KILL -- "-$(cat "$LSF/job")"; }

# The job has an hour and a half; bjobs(1): time_left is hours:minutes, L where a limit is its end.
bjobs() {
  [ "$*" = "-noheader -o time_left $JOB" ] || exit 255
  echo "${TIME_LEFT:-1:30 L}"
}

# jsrun --nrs N [OPTION VALUE]... COMMAND: on the first N compute nodes, with the caller's environment.
jsrun() {
  count=$2
  while [ "${1#--}" != "$1" ]; do shift 2; done
  running=
  for each in $COMPUTE; do
    [ "$count" -gt 0 ] || break
    count=$((count - 1))
    on "$each" "$@" &
    running="$running $!"
  done
  ended=0
  for each in $running; do wait "$each" || ended=$?; done
  return "$ended"
}

# ssh [OPTIONS] HOST -- COMMAND: a login has no variables of the job.
ssh() {
  while [ "${1#-}" != "$1" ]; do shift; done
  host=$1
  shift 2
  on "$host" env -i HOME="$HOME" USER="$USER" PATH="$PATH" sh -c "$*"
}

name=$(basename "$0" .sh)
if [ "$name" = cluster ]; then name=$1; shift; fi
"$name" "$@"
