#!/bin/sh
# cluster.sh NAME ARGUMENTS: what stands for launchers and schedulers that this machine has not. By links it is flux, mpiexec (of PALS), aprun,
# pbsdsh, pbs_tmrsh, pbs_attach, pbs_mom, blaunch, res and ssh. $CLUSTER holds the hosts' processes (node.NAME) and whatever is called.
# A process that a scheduler's own daemons would start is a line in $CLUSTER/tasks, and `end` ends it, as they do with the job.
set -eu

# on HOST COMMAND: with the mounts and the host name of the host.
on() {
  pid=$(cat "$CLUSTER/node.$1")
  shift
  exec nsenter --target "$pid" --mount --uts -- "$@"
}

# task HOST COMMAND: as a child of the scheduler's daemon there.
task() {
  # A shell gives what runs in the background another input.
  exec 3<&0
  (on "$@" <&3 3<&-) &
  exec 3<&-
  echo $! >>"$CLUSTER/tasks"
  tasks="${tasks:-} $!"
}

# finish: waits for them; the largest status is this one's.
finish() {
  status=0
  for each in $tasks; do
    ended=0
    wait "$each" || ended=$?
    [ "$ended" -le "$status" ] || status=$ended
  done
  exit "$status"
}

# node NAME: becomes it.
node() {
  hostname "$1"
  mount --bind "$CLUSTER/hosts" /etc/hosts
  echo $$ >"$CLUSTER/node.$1.new" && mv "$CLUSTER/node.$1.new" "$CLUSTER/node.$1"
  exec sleep infinity
}

# end: the end of the job, by the scheduler: SIGTERM to all it has started, SIGKILL five seconds later.
end() {
  [ ! -e "$CLUSTER/tasks" ] || while read -r each; do kill -TERM "$each" 2>/dev/null || true; done <"$CLUSTER/tasks"
}

# pbs_mom and res, the daemons of PBS and LSF that start a job's script on its first host.
pbs_mom() {
  (on "$FIRST" sh -e "$1") &
  wait $!
}
res() { pbs_mom "$1"; }

called() { echo "$*" >>"$CLUSTER/called"; }

# flux-exec(1): a copy on each broker of the set, standard input to all of them; flux-getattr(1).
flux() {
  called flux "$@"
  case "$1 $2" in
    'getattr hostlist') echo "$HOSTLIST"; return ;;
    'exec --quiet') shift 2 ;;
    *) exit 64 ;;
  esac
  input=$(mktemp)
  given=yes ranks=
  while :; do
    case $1 in
      --noinput) given= ;;
      --dir=*) ;;
      --rank=*) ranks=${1#--rank=} ;;
      -r) ranks=$2; shift ;;
      *) break ;;
    esac
    shift
  done
  [ -z "$given" ] || cat >"$input"
  for each in $(echo "$ranks" | tr , '\n' | sed 's/^\([0-9]*\)$/\1-\1/' | while IFS=- read -r from to; do seq "$from" "$to"; done); do
    # shellcheck disable=SC2086
    set -- $HOSTS -- "$@"
    host=$(eval "echo \${$((each + 1))}")
    while [ "$1" != -- ]; do shift; done
    shift
    task "$host" "$@" <"$input"
  done
  rm -f "$input"
  finish
}

# mpiexec of PALS: -n N -ppn 1 --cpu-bind none --hostfile FILE. Only the first copy has its standard input.
mpiexec() {
  called mpiexec "$@"
  [ "$1 $3 $4 $5 $6 $7" = '-n -ppn 1 --cpu-bind none --hostfile' ] || exit 64
  file=$8
  shift 8
  while read -r host; do task "$host" "$@" </dev/null; done <"$file"
  finish
}

# pbsdsh -n INDEX -- COMMAND: its output goes to the job's, not back.
pbsdsh() {
  called pbsdsh "$@"
  [ "$1 $3" = '-n --' ] || exit 64
  host=$(sed -n "$(($2 + 1))p" "$PBS_NODEFILE")
  shift 3
  task "$host" "$@" </dev/null >>"$CLUSTER/out" 2>&1
  finish
}

pbs_tmrsh() {
  called pbs_tmrsh "$@"
  task "$@" </dev/null >>"$CLUSTER/out" 2>&1
  finish
}

# pbs_attach -j JOB -p PID: the process belongs to the job from now on.
pbs_attach() {
  called pbs_attach "$@"
  [ "$1 $2 $3" = "-j $JOB -p" ] || exit 64
  echo "$4" >>"$CLUSTER/tasks"
}

# blaunch -no-shell -n {-u FILE | HOST} COMMAND
blaunch() {
  called blaunch "$@"
  [ "$1 $2" = '-no-shell -n' ] || exit 64
  shift 2
  if [ "$1" = -u ]; then
    file=$2
    shift 2
    while read -r host; do task "$host" "$@" </dev/null; done <"$file"
  else
    task "$@" </dev/null
  fi
  finish
}

# ssh [OPTIONS] HOST [--] COMMAND: a login has no variables of the job.
ssh() {
  called ssh "$@"
  while [ "${1#-}" != "$1" ]; do shift; done
  host=$1
  shift
  [ "$1" != -- ] || shift
  on "$host" env -i HOME="$HOME" USER="$USER" PATH="$PATH" CLUSTER="$CLUSTER" JOB="$JOB" sh -c "$*"
}

name=$(basename "$0" .sh)
if [ "$name" = cluster ]; then name=$1; shift; fi
"$name" "$@"
