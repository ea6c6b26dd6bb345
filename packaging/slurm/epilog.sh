#!/bin/sh
# Lands what a job has left in its burst stores on this node. For Slurm's Epilog: root runs it on each node of the job when all its
# processes have ended, and the node takes no other job until it ends.
#
# The stores of all nodes meet on the backing file system, and the job's first node lands them (forebay salvage --meet). What has not
# landed within the limit stays, and the system's log says where and what lands it. Always ends with 0: a failing Epilog drains the node.
#
#   FOREBAY_EPILOG_STORES   patterns of stores; %u is the user, %j the job (default: where --burst-store auto puts them below /mnt/bb)
#   FOREBAY_EPILOG_MEET     how long nodes wait for each other (default 2min)
#   FOREBAY_EPILOG_TIMEOUT  how long landing may take then (default 5min)
#   FOREBAY                 the command (default forebay)

stores=${FOREBAY_EPILOG_STORES:-/mnt/bb/%u/forebay-%j}
forebay=${FOREBAY:-forebay}
user=${SLURM_JOB_USER:-$(id -un "$SLURM_JOB_UID")}

say() {
  logger -t forebay -- "job $SLURM_JOB_ID: $1" 2>/dev/null
  echo "forebay: job $SLURM_JOB_ID: $1"
}

# As the user, who alone may enter a store, and as whom everything lands.
as_user() {
  setpriv --reuid "$SLURM_JOB_UID" --regid "$(id -g "$user")" --init-groups -- "$@"
}

for store in $(printf '%s\n' "$stores" | sed "s/%u/$user/g; s/%j/$SLURM_JOB_ID/g"); do
  [ -d "$store" ] || continue
  told=$(as_user "$forebay" salvage --burst-store "$store" --meet "${FOREBAY_EPILOG_MEET:-2min}" \
    --timeout "${FOREBAY_EPILOG_TIMEOUT:-5min}" 2>&1)
  status=$?
  say "$store of $user on $(hostname) (status $status): $told"
  # The directory that the store was in.
  [ "$status" != 0 ] || as_user rmdir "$store" 2>/dev/null
done
exit 0
