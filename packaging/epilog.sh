#!/bin/sh
# Lands what a job has left in its burst stores on this node. Root runs it on each node of the job when all its processes have ended, and the
# node takes no other job until it ends:
#
#   Slurm          Epilog=/path/epilog.sh in slurm.conf
#   LSF with CSM   a line in /opt/ibm/csm/prologs/privileged_epilog (docs/operations.md)
#
# Both run it in an environment of their own. It must not be a post-execution command of LSF: those run in the job's environment, which would
# tell root which command to run, and as whom.
#
# The stores of all nodes meet on the backing file system, and the job's first node lands them (forebay salvage --meet). What has not
# landed within the limit stays, and the system's log says where and what lands it. Always ends with 0: a failing epilogue takes the node
# out of service.
#
#   FOREBAY_EPILOG_STORES   patterns of stores; %u is the user, %j the job (default: where --burst-store auto puts them below /mnt/bb)
#   FOREBAY_EPILOG_MEET     how long nodes wait for each other (default 2min)
#   FOREBAY_EPILOG_TIMEOUT  how long landing may take then (default 5min)
#   FOREBAY                 the command (default forebay)

stores=${FOREBAY_EPILOG_STORES:-/mnt/bb/%u/forebay-%j}
forebay=${FOREBAY:-forebay}

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

# As the user, who alone may enter a store, and as whom everything lands.
as_user() {
  setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups -- "$@"
}

# Slurm has ended the job's daemons. LSF does not know of them.
[ -n "$SLURM_JOB_ID" ] || as_user "$forebay" down --local-only --no-drain --job "$job" >/dev/null 2>&1

for store in $(printf '%s\n' "$stores" | sed "s/%u/$user/g; s/%j/$job/g"); do
  [ -d "$store" ] || continue
  told=$(as_user "$forebay" salvage --burst-store "$store" --meet "${FOREBAY_EPILOG_MEET:-2min}" \
    --timeout "${FOREBAY_EPILOG_TIMEOUT:-5min}" 2>&1)
  status=$?
  say "$store of $user on $(hostname) (status $status): $told"
  # The directory that the store was in.
  [ "$status" != 0 ] || as_user rmdir "$store" 2>/dev/null
done
exit 0
