#!/bin/busybox sh
# The guest's first process: makes a machine of it, runs guest-check.sh as root and as a user, switches it off.
#
# Everything it says goes to the console, which run.sh reads: lines that begin with PASS, FAIL and `result:`.
/bin/busybox mkdir -p /proc /sys /dev /tmp /etc /run /root /user /usr /sbin
/bin/busybox --install -s /bin
ln -s /bin /usr/bin
export PATH=/bin:/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# What the kernel says of itself would lie between the lines of the checks.
echo 1 >/proc/sys/kernel/printk
mkdir -p /dev/shm /scratch /user/scratch /burst
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=1777 shm /dev/shm
# Exports, stores and the backing file system, where programs and the C library are not.
mount -t tmpfs -o mode=755,size=70% scratch /scratch
chmod 755 /
printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/user:/bin/sh\n' >/etc/passwd
printf 'root:x:0:\nuser:x:1000:\n' >/etc/group
echo '127.0.0.1 localhost guest' >/etc/hosts
# fusermount3 wants this file. It unmounts by itself, then has umount note that (--fake), an option that busybox has not.
ln -s /proc/mounts /etc/mtab
rm /bin/umount
cat >/bin/umount <<'END'
#!/bin/busybox sh
case " $* " in *' --fake '*) exit 0 ;; esac
exec /bin/busybox umount "$@"
END
chmod 755 /bin/umount
hostname guest
ifconfig lo 127.0.0.1 up
if [ -f /fuse.ko ]; then insmod /fuse.ko; fi
chmod 666 /dev/fuse
ulimit -n 65536

page_kib=$(awk '/^KernelPageSize/ { print $2; exit }' /proc/self/smaps)
echo "machine: $(uname -srm), pages of $page_kib KiB, $(nproc) processors, up after $(cut -d' ' -f1 /proc/uptime) s"
mkdir -p /scratch/root /scratch/user
chown 1000:1000 /scratch/user /user
failed=0
HOME=/root sh /tests/guest-check.sh root /scratch/root || failed=1
su user -c 'HOME=/user sh /tests/guest-check.sh user /scratch/user' || failed=1
complaints=$(dmesg | grep -E 'BUG|WARNING|Oops|segfault|hung task' | head -n 5)
if [ -n "$complaints" ]; then
  echo 'FAIL kernel: it complains'
  echo "$complaints" | sed 's/^/    /'
  failed=1
fi
if [ $failed = 0 ]; then echo "result: passed after $(cut -d' ' -f1 /proc/uptime) s"; else echo 'result: failed'; fi
poweroff -f
