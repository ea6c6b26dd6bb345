#!/bin/sh
# Lands what a job has left in its burst stores on this node. Root runs it on each node of the job when all its processes have ended, and the
# node takes no other job until it ends:
#
#   Slurm          Epilog=/path/epilog.sh in slurm.conf
#   LSF with CSM   a line in /opt/ibm/csm/prologs/privileged_epilog (docs/schedulers.md)
#
# Both run it in an environment of their own. It must not be a post-execution command of LSF: those run in the job's environment, which would
# tell root which command to run, and as whom.
#
# The stores of all nodes meet on the backing file system, and the job's first node lands them (forebay salvage --meet). What has not
# landed within the limit stays, and the system's log says where and what lands it. Always ends with 0: a failing epilogue takes the node
# out of service.
#
# A store is its user's, and processes of the user may still run on the node. So root itself opens nothing there: all of it runs as the user, for
# a limited time and with limited memory, and a limited part of its output is kept.
#
#   FOREBAY_EPILOG_STORES   patterns of stores; %u is the user, %j the job (default: where --burst-store auto puts them below /mnt/bb)
#   FOREBAY_EPILOG_MEET     how long nodes wait for each other (default 2min)
#   FOREBAY_EPILOG_TIMEOUT  how long landing may take then (default 5min)
#   FOREBAY_EPILOG_LIMIT    seconds that a store may take in all, then its command is killed; more than both together (default 900)
#   FOREBAY_EPILOG_MEMORY   KiB of memory that the command may take (default 4194304)
#   FOREBAY                 the command (default forebay, in the directories of PATH below)

# Slurm gives an epilogue none.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

stores=${FOREBAY_EPILOG_STORES:-/mnt/bb/%u/forebay-%j}
limit=${FOREBAY_EPILOG_LIMIT:-900}
memory=${FOREBAY_EPILOG_MEMORY:-4194304}
forebay=$(command -v "${FOREBAY:-forebay}")

# Seconds between SIGTERM and SIGKILL.
grace=10

# Bytes of output that are kept.
output_max=16384

# An array job of LSF has its index in the name of its tier.
if [ -n "$SLURM_JOB_ID" ]; then
  job=$SLURM_JOB_ID user=${SLURM_JOB_USER:-$(id -un "$SLURM_JOB_UID")} index=
else
  job=$CSM_PRIMARY_JOB_ID user=$CSM_USER_NAME index=$CSM_SECONDARY_JOB_ID
fi
[ "${index:-0}" = 0 ] || job=$job-$index

say() {
  logger -t forebay -- "job $job: $1" 2>/dev/null
  echo "forebay: job $job: $1"
}

# as_user SECONDS COMMAND: as the user, who alone may enter a store, and as whom everything lands. A command that stands still or does not
# end on SIGTERM is killed.
as_user() {
  seconds=$1
  shift
  timeout --kill-after="$grace" "$seconds" setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups -- \
    sh -c 'ulimit -d "$0"; exec "$@"' "$memory" "$@" </dev/null
}

# Copies the beginning of its input, each byte as it comes, and reads on, so that the command can go on. It ends after the command, whichever
# process still has the pipe open.
beginning() {
  timeout --kill-after="$grace" "$((limit + grace + 2))" \
    sh -c 'dd bs=1 count="$0" 2>/dev/null; exec cat >/dev/null' "$output_max"
}

# salvage STORE: prints what it says, and its exit status as the last line. Neither descriptor is handed to the user's process.
salvage() {
  {
    status=$({
      {
        as_user "$limit" "$forebay" salvage --burst-store "$1" --meet "${FOREBAY_EPILOG_MEET:-2min}" \
          --timeout "${FOREBAY_EPILOG_TIMEOUT:-5min}" 2>&1 3>&- 4>&-
        echo $? >&3
      } | beginning >&4 3>&-
    } 3>&1)
  } 4>&1
  printf '\n%s' "$status"
}

# Slurm has ended the job's daemons. LSF does not know of them.
[ -n "$SLURM_JOB_ID" ] || as_user 60 "$forebay" down --local-only --no-drain --job "$job" >/dev/null 2>&1

# Who the user is may be asked of a directory service.
as_user 60 true >/dev/null 2>&1 || say "nothing can be run as $user on $(hostname): stores of job $job, if there are any, have not landed"

for store in $(printf '%s\n' "$stores" | sed "s/%u/$user/g; s/%j/$job/g"); do
  as_user 60 test -d "$store" >/dev/null 2>&1
  status=$?
  [ "$status" -le 1 ] || say "$store of $user on $(hostname) cannot be looked at (status $status): what is in it has not landed"
  [ "$status" = 0 ] || continue
  if [ -z "$forebay" ]; then
    say "$store of $user on $(hostname) has not landed: there is no command ${FOREBAY:-forebay}; set FOREBAY to its absolute path"
    continue
  fi
  # Control characters are not for the log.
  told=$(salvage "$store" | tr -d '\000-\010\013-\037')
  status=${told##*
}
  say "$store of $user on $(hostname) (status $status): ${told%
*}"
  # The directory that the store was in.
  [ "$status" != 0 ] || as_user 60 rmdir "$store" >/dev/null 2>&1
done
exit 0
