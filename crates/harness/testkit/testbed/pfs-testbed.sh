#!/usr/bin/env bash
# pfs-testbed.sh - a real network file system (GlusterFS) on one machine, for tests and measurements.
#
# Brings up a file server in its own network namespace, N client nodes in
# theirs, a switch between them, and on every node its own FUSE mount of the
# file system at the same path. Nothing is created in the host's own network
# or mount namespace except the namespace handles, so "down" is complete.
# Needs root, iproute2, util-linux >= 2.38 and the Debian packages glusterfs-server and glusterfs-client
# (no glusterd is run). No kernel module, no systemd.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: pfs-testbed.sh COMMAND [options]

  up [options]             build the testbed
      -n, --clients N        client nodes n0..n(N-1)           (default 2, at most 200)
      -r, --rate RATE        server link, tc syntax, e.g. 1gbit (default 1gbit; "none": no cap)
      -R, --client-rate RATE each client's link                 (default none)
      -k, --servers K        storage servers (bricks; default 1)
      -s, --size SIZE        back each server with its own ext4 image of SIZE, e.g. 4G
                             (gives real ENOSPC, read-only and cold-server tests;
                             default: a plain directory)
      -d, --mds-delay US     every metadata request costs US microseconds of
                             server time (default 0)
      -t, --mds-threads T    requests each server works on at once (default 16);
                             with -d the ceiling is T/US million requests a second
      -p, --profile NAME     client caching: stock (default) or none
  down                     kill everything in the namespaces, unmount, delete the state
  status                   what runs where
  exec NODE [--] CMD...    run CMD on NODE: pfs (the server), n0, n1, ...
  all [--] CMD...          run CMD on all client nodes at once; fails if one fails
  remount [NODE]...        fresh mounts (cold client caches) on the nodes named, or all
  cold                     cold servers too: stop, drop their disk cache, start, remount
                           (needs --size)
  rate RATE                change the server's link while running
  fault KIND [args]        break something for real:
      link-down NODE | link-up NODE     cut / restore a node's cable
      part A,B,.. C,D,.. | join         the nodes of one group and those of the other no longer hear
                                        each other, but all hear the server / all is as before
      kill [I] | start [I]              SIGKILL / start server I (all without I)
      pause [I] | resume [I]            SIGSTOP / SIGCONT: a hung server
      fill | unfill                     fill / free the servers' disks (needs --size)
      readonly | readwrite              remount the servers' disks (needs --size)
      delay US [PERCENT [FOPS]]         slow down requests (default: metadata)
      error ERRNO [FOPS]                fail one request in 3 to 44, e.g. error EIO open,read
      error-mixed PERCENT [FOPS]        fail PERCENT of the requests with fitting errors
      clear                             no delay, no errors
  metrics [I]              requests by kind at server I (default 0) since it started, and SENT_BYTES,
                           what it sent to the clients that are connected now

environment:
  PFS_STATE   state directory   (default: ${TMPDIR:-/tmp}/pfs-testbed)
  PFS_PREFIX  put before namespace names, so that two testbeds can coexist (default none)

The file system is at $PFS_STATE/pfs on every node (print it with "status").
USAGE
}

die() { printf 'pfs-testbed: %s\n' "$*" >&2; exit 1; }
need() { local c; for c; do command -v "$c" >/dev/null || die "needs the command '$c' ($(hint "$c"))"; done; }
hint() {
  case $1 in
    glusterfs|glusterfsd) echo "apt-get install glusterfs-server glusterfs-client" ;;
    ip|tc) echo "apt-get install iproute2" ;;
    *) echo "apt-get install util-linux" ;;
  esac
}

STATE=$(realpath -m "${PFS_STATE:-${TMPDIR:-/tmp}/pfs-testbed}")
PREFIX=${PFS_PREFIX:-}
[[ $PREFIX =~ ^[a-z0-9-]{0,8}$ ]] || die "PFS_PREFIX: at most 8 of a-z, 0-9, -"
MNT=$STATE/pfs
NET=10.66.0          # private to the namespaces
# what error-gen accepts (EMLINK and ENODEV are spoiled by a missing comma in GlusterFS)
ERRNOS='ENOENT ENOTDIR ENAMETOOLONG EACCES EBADF EFAULT ENOMEM EINVAL EIO EEXIST ENOSPC EPERM EROFS EBUSY EISDIR ENOTEMPTY EXDEV EMFILE ENFILE ENOSYS EINTR EFBIG EAGAIN'
META_FOPS=lookup,stat,fstat,open,create,opendir,readdir,readdirp,mkdir,mknod,unlink,rename,readlink,access,getxattr

# ---- namespaces -------------------------------------------------------------
ns() { printf '%s%s' "$PREFIX" "$1"; }                # node -> name of its netns
sw() { ns sw; }
on() {                                                # on NODE CMD...: run inside a node
  local node=$1; shift
  nsenter --net="/run/netns/$(ns "$node")" --mount="$STATE/ns/$node.mnt" \
    --uts="$STATE/ns/$node.uts" --wdns="$PWD" -- "$@"
}
alive() { [[ -e $STATE/ns/$1.mnt && -e /run/netns/$(ns "$1") ]]; }
check_up() { [[ -r $STATE/config ]] || die "no testbed in $STATE (run: $0 up)"; . "$STATE/config"; }
check_node() { alive "$1" || die "no node '$1' (nodes: pfs n0..n$((CLIENTS - 1)))"; }
nodes() { local i; for ((i = 0; i < CLIENTS; i++)); do echo "n$i"; done; }

make_node() {                                         # make_node NAME ADDRESS PORT
  local node=$1 addr=$2 port=$3
  [[ ! -e /run/netns/$(ns "$node") ]] || die "network namespace '$(ns "$node")' exists already and is not ours; set PFS_PREFIX"
  ip netns add "$(ns "$node")"
  echo "$(ns "$node")" >> "$STATE/netns"
  : > "$STATE/ns/$node.mnt"; : > "$STATE/ns/$node.uts"
  unshare --mount="$STATE/ns/$node.mnt" --uts="$STATE/ns/$node.uts" --propagation private \
    sh -c 'printf %s "$1" > /proc/sys/kernel/hostname' sh "$node"
  ip -n "$(sw)" link add "$port" type veth peer name eth0 netns "$(ns "$node")"
  ip -n "$(sw)" link set "$port" master br0 up
  ip -n "$(ns "$node")" addr add "$addr/24" dev eth0
  ip -n "$(ns "$node")" link set lo up
  ip -n "$(ns "$node")" link set eth0 up
}

name_nodes() {                                        # every node knows every other by name, as on a cluster
  local i n
  { echo "127.0.0.1 localhost"; echo "$NET.1 pfs"; for ((i = 0; i < CLIENTS; i++)); do echo "$NET.$((i + 10)) n$i"; done; } > "$STATE/hosts"
  for n in pfs $(nodes); do on "$n" mount --bind "$STATE/hosts" /etc/hosts; done
}

shape() {                                             # shape NODE PORT RATE: cap both directions
  local node=$1 port=$2 rate=$3 a
  for a in "$(ns "$node") eth0" "$(sw) $port"; do
    # shellcheck disable=SC2086
    set -- $a
    tc -n "$1" qdisc del dev "$2" root 2>/dev/null || true
    [[ $rate == none ]] || tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst 256kb latency 50ms
  done
}

wait_for() {                                          # wait_for SECONDS WHAT CMD...
  local end=$((SECONDS + $1)) what=$2; shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || die "$what: not ready in time; logs are in $STATE/log"
    sleep 0.05
  done
}
stop_pid() {                                          # stop_pid PIDFILE NODE: TERM, then KILL
  local pid i
  pid=$(cat "$1" 2>/dev/null) || return 0
  rm -f "$1"
  # the pid must still be a process of that node: pids are reused
  [[ $(readlink "/proc/$pid/ns/net" 2>/dev/null) == "net:[$(stat -Lc %i "/run/netns/$(ns "$2")")]" ]] || return 0
  kill -TERM "$pid" 2>/dev/null || return 0
  kill -CONT "$pid" 2>/dev/null || true
  for ((i = 0; i < 100; i++)); do [[ -d /proc/$pid ]] || return 0; sleep 0.05; done
  kill -KILL "$pid" 2>/dev/null || true
}

# ---- GlusterFS, from hand-written volume files: no glusterd, starts at once ---
gluster_brick_volfile() {                             # brick I: posix <- error <- delay <- locks <- io-threads <- io-stats <- server
  local i=$1 top=posix
  printf 'volume posix\n type storage/posix\n option directory %s\n option reserve 0\nend-volume\n' "$STATE/srv/$i/brick"
  if [[ -n ${ERROR_NO:-} ]]; then
    # error-gen heeds error-no only with random-failure on; it then fails one request in
    # 3 to 44, and takes "failure" (a share of 2^20) as the number of the first one: 3.
    # Without it, "failure" is a percentage and the errno is drawn by kind of request.
    if [[ $ERROR_NO == mixed ]]; then printf 'volume error\n type debug/error-gen\n option failure %s\n' "$ERROR_PC"
    else printf 'volume error\n type debug/error-gen\n option failure 0.0003\n option random-failure on\n option error-no %s\n' "$ERROR_NO"; fi
    printf ' option enable %s\n subvolumes %s\nend-volume\n' "$ERROR_FOPS" $top; top=error
  fi
  if ((DELAY_US > 0)); then
    printf 'volume delay\n type debug/delay-gen\n option delay-duration %s\n option delay-percentage %s\n option enable %s\n subvolumes %s\nend-volume\n' \
      "$DELAY_US" "$DELAY_PC" "$DELAY_FOPS" $top; top=delay
  fi
  cat <<VOL
volume locks
 type features/locks
 subvolumes $top
end-volume
volume iot
 type performance/io-threads
 option thread-count $THREADS
 option high-prio-threads $THREADS
 option normal-prio-threads $THREADS
 option low-prio-threads $THREADS
 subvolumes locks
end-volume
volume stats
 type debug/io-stats
 option count-fop-hits on
 option latency-measurement on
 option unique-id brick$i
 subvolumes iot
end-volume
volume brick$i
 type features/namespace
 subvolumes stats
end-volume
volume server
 type protocol/server
 option transport-type tcp
 option transport.socket.bind-address $NET.1
 option transport.socket.listen-port $((24100 + i))
 option auth.addr.brick$i.allow *
 subvolumes brick$i
end-volume
VOL
}
gluster_client_volfile() {
  local i subs='' top=dht x
  for ((i = 0; i < SERVERS; i++)); do
    cat <<VOL
volume c$i
 type protocol/client
 option transport-type tcp
 option remote-host $NET.1
 option remote-port $((24100 + i))
 option remote-subvolume brick$i
 option ping-timeout 10
end-volume
VOL
    subs+=" c$i"
  done
  if ((SERVERS > 1)); then printf 'volume dht\n type cluster/distribute\n subvolumes%s\nend-volume\n' "$subs"; else top=c0; fi
  if [[ $PROFILE == stock ]]; then
    for x in write-behind open-behind quick-read md-cache; do
      printf 'volume %s\n type performance/%s\n subvolumes %s\nend-volume\n' "$x" "$x" "$top"; top=$x
    done
  fi
  printf 'volume top\n type debug/io-stats\n subvolumes %s\nend-volume\n' "$top"
}
gluster_start() {                                     # gluster_start I
  local i=$1
  mkdir -p "$STATE/srv/$i" "$STATE/run/gluster/metrics"
  # glusterfsd dumps its counters under /run/gluster; on the server node that is ours
  if [[ -d /run/gluster ]] && ! on pfs mountpoint -q /run/gluster; then on pfs mount --bind "$STATE/run/gluster" /run/gluster; fi
  if [[ -n $SIZE ]]; then
    if [[ ! -e $STATE/srv/$i.img ]]; then
      truncate -s "$SIZE" "$STATE/srv/$i.img"
      mkfs.ext4 -q -F -m 0 -E lazy_itable_init=1,lazy_journal_init=1 "$STATE/srv/$i.img"
    fi
    on pfs mountpoint -q "$STATE/srv/$i" || on pfs mount -o loop,noatime "$STATE/srv/$i.img" "$STATE/srv/$i"
  fi
  on pfs mkdir -p "$STATE/srv/$i/brick"
  gluster_brick_volfile "$i" > "$STATE/brick$i.vol"
  on pfs glusterfsd -f "$STATE/brick$i.vol" -p "$STATE/run/server$i.pid" -l "$STATE/log/server$i.log" -L WARNING \
    || die "server $i does not start; see $STATE/log/server$i.log"
}
gluster_ready() { local i; for ((i = 0; i < SERVERS; i++)); do on pfs bash -c "exec 3<>/dev/tcp/$NET.1/$((24100 + i))" || return 1; done; }
gluster_mount() {                                     # gluster_mount NODE
  local to=(--entry-timeout=1 --attribute-timeout=1 --negative-timeout=1)
  [[ $PROFILE == stock ]] || to=(--entry-timeout=0 --attribute-timeout=0 --negative-timeout=0)
  on "$1" glusterfs -f "$STATE/client.vol" "${to[@]}" -p "$STATE/run/mount-$1.pid" -l "$STATE/log/mount-$1.log" -L WARNING "$MNT" \
    || die "$1 does not mount; see $STATE/log/mount-$1.log"
}
gluster_prepare() { gluster_client_volfile > "$STATE/client.vol"; }
gluster_metrics() {                                   # the counters of server I
  local i=${1:-0} pid f dir=$STATE/run/gluster/metrics
  pid=$(cat "$STATE/run/server$i.pid" 2>/dev/null) || die "server $i is not running"
  rm -f "$dir"/*; kill -USR2 "$pid"
  wait_for 5 "counters of server $i" grep -rqs '^posix.total.fop-count' "$dir"
  f=("$dir"/*)
  awk '/^server\.total\.rpc\..*\.bytes_write / { sent += $2 } END { printf "SENT_BYTES %.0f\n", sent }' "${f[0]}"
  sed -n 's/^stats\.total\.\([A-Z]*\)\.count /\1 /p; s/^stats\.total\.fop-count /TOTAL /p' "${f[0]}"
}

# ---- commands -------------------------------------------------------------------
save_config() {
  local v
  for v in CLIENTS RATE CLIENT_RATE SERVERS SIZE PROFILE THREADS DELAY_US DELAY_PC DELAY_FOPS ERROR_NO ERROR_PC ERROR_FOPS; do
    printf '%s=%q\n' "$v" "${!v}"
  done > "$STATE/config"
}
cmd_up() {
  CLIENTS=2 RATE=1gbit CLIENT_RATE=none SERVERS=1 SIZE='' PROFILE=stock THREADS=16
  DELAY_US=0 DELAY_PC=100% DELAY_FOPS=$META_FOPS ERROR_NO='' ERROR_PC='' ERROR_FOPS=''
  while (($#)); do
    (($# > 1)) || die "up: $1 needs a value (see --help)"
    case $1 in
      -n|--clients) CLIENTS=$2 ;; -r|--rate) RATE=$2 ;;
      -R|--client-rate) CLIENT_RATE=$2 ;; -k|--servers) SERVERS=$2 ;; -s|--size) SIZE=$2 ;;
      -d|--mds-delay) DELAY_US=$2 ;; -t|--mds-threads) THREADS=$2 ;; -p|--profile) PROFILE=$2 ;;
      *) die "up: unknown option $1 (see --help)" ;;
    esac
    shift 2
  done
  local v
  for v in CLIENTS SERVERS THREADS DELAY_US; do [[ ${!v} =~ ^[0-9]+$ ]] || die "up: $v must be a number, not '${!v}'"; done
  ((CLIENTS >= 1 && CLIENTS <= 200)) || die "up: 1 to 200 clients"
  ((SERVERS >= 1 && SERVERS <= 64)) || die "up: 1 to 64 servers"
  [[ $PROFILE == stock || $PROFILE == none ]] || die "up: --profile is stock or none"
  ((EUID == 0)) || die "needs root"
  [[ -c /dev/fuse ]] || die "no /dev/fuse"
  need ip tc nsenter unshare mount glusterfs glusterfsd
  [[ ! -e $STATE/netns ]] || die "$STATE already holds a testbed (run: $0 down)"
  if [[ -d $STATE ]] && [[ -n $(ls -A "$STATE") ]]; then die "$STATE is not empty"; fi
  mkdir -p "$STATE"/{ns,run,log,srv,pfs}
  trap 'echo "pfs-testbed: up failed, cleaning up; logs saved in $STATE.failed" >&2; rm -rf "$STATE.failed"; cp -r "$STATE/log" "$STATE.failed"; cmd_down' EXIT
  : > "$STATE/netns"
  mount --bind "$STATE/ns" "$STATE/ns"; mount --make-private "$STATE/ns"
  [[ ! -e /run/netns/$(sw) ]] || die "network namespace '$(sw)' exists already and is not ours; set PFS_PREFIX"
  ip netns add "$(sw)"; sw >> "$STATE/netns"; echo >> "$STATE/netns"
  ip -n "$(sw)" link add br0 type bridge; ip -n "$(sw)" link set br0 up
  make_node pfs $NET.1 server; shape pfs server "$RATE"
  local i n
  for ((i = 0; i < CLIENTS; i++)); do make_node "n$i" "$NET.$((i + 10))" "p$i"; shape "n$i" "p$i" "$CLIENT_RATE"; done
  name_nodes
  save_config
  gluster_prepare
  for ((i = 0; i < SERVERS; i++)); do gluster_start "$i"; done
  wait_for 20 "file server" gluster_ready
  for n in $(nodes); do gluster_mount "$n"; done
  wait_for 20 "file system" has_space
  trap - EXIT
  echo "pfs-testbed: GlusterFS, $SERVERS server(s) at $RATE, $CLIENTS client(s), file system at $MNT on every node"
}

has_space() { (($(on n0 stat -f -c %b "$MNT") > 0)); }
cmd_down() {
  trap - EXIT
  local name pids f i
  [[ -e $STATE/netns ]] || { echo "pfs-testbed: nothing to take down in $STATE"; return 0; }
  # Everything that runs in our namespaces is ours or was started on a node.
  for i in TERM CONT KILL; do
    while read -r name; do
      [[ -n $name && -e /run/netns/$name ]] || continue
      pids=$(ip netns pids "$name") || continue
      # shellcheck disable=SC2086
      [[ -z $pids ]] || kill -$i $pids 2>/dev/null || true
    done < "$STATE/netns"
    [[ $i != CONT ]] || sleep 0.3
  done
  for f in "$STATE"/ns/*.mnt "$STATE"/ns/*.uts; do
    if mountpoint -q "$f" 2>/dev/null; then umount "$f" || umount -l "$f"; fi
  done
  while mountpoint -q "$STATE/ns" 2>/dev/null; do umount "$STATE/ns" || umount -l "$STATE/ns"; done
  while read -r name; do
    [[ -n $name && -e /run/netns/$name ]] || continue
    for ((i = 0; i < 100; i++)); do [[ -n $(ip netns pids "$name") ]] || break; sleep 0.05; done
    ip netns del "$name" || true
  done < "$STATE/netns"
  # never delete through a mount that is still there
  ! grep -q " $STATE/" /proc/self/mounts || die "still mounted under $STATE; not deleting it"
  rm -rf --one-file-system "$STATE"
  echo "pfs-testbed: down"
}

cmd_status() {
  check_up
  echo "GlusterFS  servers $SERVERS  clients $CLIENTS  rate $RATE  client-rate $CLIENT_RATE  size ${SIZE:-directory}  mds-delay ${DELAY_US}us x ${THREADS} threads${ERROR_NO:+  errors $ERROR_NO $ERROR_PC $ERROR_FOPS}"
  echo "file system at $MNT on every node; logs in $STATE/log"
  local n i state
  for ((i = 0; i < SERVERS; i++)); do
    state=stopped
    if [[ -e $STATE/run/server$i.pid && -d /proc/$(cat "$STATE/run/server$i.pid") ]]; then
      state="pid $(cat "$STATE/run/server$i.pid"), $(awk '/VmRSS/{print int($2/1024)}' "/proc/$(cat "$STATE/run/server$i.pid")/status") MiB"
    fi
    echo "server $i: $state"
  done
  for n in $(nodes); do
    if ! on "$n" grep -q " $MNT fuse" /proc/self/mounts; then state='NOT MOUNTED'
    elif on "$n" timeout 2 stat -f "$MNT" >/dev/null 2>&1; then state=mounted
    else state='mounted, server does not answer'; fi
    echo "$n: $state ($NET.$((${n#n} + 10)))"
  done
}
cmd_exec() {
  check_up; local node=${1:-}; [[ -n $node ]] || die "exec NODE CMD..."; shift
  check_node "$node"; [[ ${1:-} != -- ]] || shift
  (($#)) || set -- "${SHELL:-/bin/bash}"
  on "$node" "$@"
}
cmd_all() {
  check_up; [[ ${1:-} != -- ]] || shift
  (($#)) || die "all CMD..."
  local n p bad=0 pids=()
  for n in $(nodes); do on "$n" "$@" & pids+=($!); done
  for p in "${pids[@]}"; do wait "$p" || bad=1; done
  return $bad
}
unmount_node() {
  local n=$1 i
  on "$n" umount "$MNT" 2>/dev/null || on "$n" umount -l "$MNT" 2>/dev/null || true
  stop_pid "$STATE/run/mount-$n.pid" "$n"
}
cmd_remount() {
  check_up; local n list=("$@")
  ((${#list[@]})) || mapfile -t list < <(nodes)
  for n in "${list[@]}"; do check_node "$n"; unmount_node "$n"; gluster_mount "$n"; done
}
cmd_cold() {
  check_up; [[ -n $SIZE ]] || die "cold: needs a testbed made with --size"
  local n i
  for n in $(nodes); do unmount_node "$n"; done
  for ((i = 0; i < SERVERS; i++)); do
    stop_pid "$STATE/run/server$i.pid" pfs
    on pfs umount "$STATE/srv/$i"
    dd if="$STATE/srv/$i.img" iflag=nocache count=0 status=none     # drop the image's own page cache
  done
  for ((i = 0; i < SERVERS; i++)); do gluster_start "$i"; done
  wait_for 20 "file server" gluster_ready
  for n in $(nodes); do gluster_mount "$n"; done
}
cmd_rate() { check_up; RATE=${1:?rate RATE}; shape pfs server "$RATE"; save_config; }

settle() {                                            # let the clients find a restarted server (they retry every 3 s)
  local n i
  for n in $(nodes); do
    for ((i = 0; i < 100; i++)); do
      [[ $(LC_ALL=C on "$n" stat -f "$MNT" 2>&1) == *'not connected'* ]] || break
      sleep 0.1
    done
  done
}
each_server() {                                       # each_server FUNCTION [I]
  local f=$1 i
  if [[ -n ${2:-} ]]; then "$f" "$2"; else for ((i = 0; i < SERVERS; i++)); do "$f" "$i"; done; fi
}
sig() { local p; p=$(cat "$STATE/run/server$2.pid" 2>/dev/null) || die "server $2 is not running"; kill "-$1" "$p"; }
NOBODY=02:00:00:00:00:01   # no node has it: frames to it get lost without a word, as in a network that is cut
part() {                                              # part NODES NODES, each group with commas
  local a b one other
  for a in ${1//,/ } ${2//,/ }; do check_node "$a"; done
  for a in ${1//,/ }; do
    for b in ${2//,/ }; do
      for one in "$a $b" "$b $a"; do
        other=${one#* }
        ip -n "$(ns "${one% *}")" neigh replace "$NET.$((${other#n} + 10))" lladdr "$NOBODY" dev eth0 nud permanent
      done
    done
  done
}
f_kill() { sig KILL "$1"; rm -f "$STATE/run/server$1.pid"; }
f_pause() { sig STOP "$1"; }
f_resume() { sig CONT "$1"; }
f_start() { [[ ! -e $STATE/run/server$1.pid ]] || die "server $1 runs already"; gluster_start "$1"; }
f_restart() { stop_pid "$STATE/run/server$1.pid" pfs; gluster_start "$1"; }
f_fill() { on pfs dd if=/dev/zero of="$STATE/srv/$1/filler" bs=1M status=none 2>/dev/null || true; }
f_unfill() { on pfs rm -f "$STATE/srv/$1/filler"; }
f_readonly() { # a failing disk: the kernel turns the file system read-only under open files
  on pfs mount -o remount,ro "$STATE/srv/$1" 2>/dev/null || on pfs sh -c 'echo 1 > "/sys/fs/ext4/$(basename "$(findmnt -no SOURCE "$1")")/trigger_fs_error"' sh "$STATE/srv/$1"
}
f_readwrite() { on pfs mount -o remount,rw "$STATE/srv/$1"; }
cmd_fault() {
  check_up
  local kind=${1:-} n; [[ -n $kind ]] || die "fault KIND (see --help)"; shift
  case $kind in
    link-down|link-up)
      check_node "${1:?fault $kind NODE}"
      local port=p${1#n}; [[ $1 != pfs ]] || port=server
      ip -n "$(sw)" link set "$port" "${kind#link-}" ;;
    part) part "${1:?fault part NODES NODES}" "${2:?fault part NODES NODES}" ;;
    join) for n in $(nodes); do ip -n "$(ns "$n")" neigh flush dev eth0 nud permanent; done ;;
    kill|pause|resume) each_server "f_$kind" "${1:-}" ;;
    start) each_server f_start "${1:-}"; settle ;;
    fill|unfill|readonly|readwrite)
      [[ -n $SIZE ]] || die "fault $kind: needs a testbed made with --size"
      each_server "f_$kind" "${1:-}" ;;
    delay|error|error-mixed|clear)
      case $kind in
        delay) DELAY_US=${1:?fault delay US}; DELAY_PC=${2:-100%}; DELAY_FOPS=${3:-$META_FOPS} ;;
        error)
          ERROR_NO=${1:?fault error ERRNO}; ERROR_FOPS=${2:-$META_FOPS}
          [[ " $ERRNOS " == *" $ERROR_NO "* ]] || die "fault error: ERRNO is one of $ERRNOS" ;;
        error-mixed) ERROR_NO=mixed; ERROR_PC=${1:?fault error-mixed PERCENT}%; ERROR_FOPS=${2:-$META_FOPS} ;;
        clear) DELAY_US=0 ERROR_NO='' ;;
      esac
      save_config; each_server f_restart              # a restart: open files survive, requests in flight fail
      wait_for 20 "file server" gluster_ready; settle ;;
    *) die "fault: no kind '$kind' (see --help)" ;;
  esac
}
cmd_metrics() { check_up; gluster_metrics "${1:-0}"; }

main() {
  local c=${1:-}; (($# == 0)) || shift
  case $c in
    up|down|status|exec|all|remount|cold|rate|fault|metrics) "cmd_$c" "$@" ;;
    -h|--help|help) usage ;;
    *) usage >&2; exit 2 ;;
  esac
}
main "$@"
