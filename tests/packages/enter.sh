#!/bin/sh
# enter.sh ROOT USER COMMAND...: the command in ROOT as the user, by run.sh in new namespaces. Not by chroot, in which the kernel gives users no
# namespaces of their own.
set -e
root=$1 user=$2
shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ip link set lo up
cd "$root"
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
unset TMPDIR XDG_CACHE_HOME XDG_STATE_HOME XDG_RUNTIME_DIR CARGO_TARGET_DIR $(env | sed -n 's/^\(FOREBAY_[A-Z_]*\)=.*/\1/p')
if [ "$user" != root ]; then
  HOME=$(getent passwd "$user" | cut -d: -f6)
  cd "$HOME"
  set -- setpriv --reuid "$user" --regid "$user" --init-groups -- "$@"
fi
# Not exec: the first process of a namespace gets no signal it does not handle, and waits for others' children.
"$@"
