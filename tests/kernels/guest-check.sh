# guest-check.sh WHO DIRECTORY: what a job does, in the guest of run.sh, as the user who calls it; 0 if all of it went well.
#
# A job with three nodes reads an export; a second one, with two nodes, writes to the burst tier. Daemons are killed in both.
# Each check says PASS or FAIL with the seconds that it took; the output of one that failed follows. Shell of busybox.
who=$1 here=$2
export_dir=$here/export view=$here/view backing=$here/backing store=$here/store mount=$here/mount burst=/burst
# Machines that are emulated, on a host that does other things beside.
export FOREBAY_WAIT_TIMEOUT=180s
wait_seconds=180
failed=0

seconds() { cut -d' ' -f1 /proc/uptime; }

# state_of_the_job: what it says of itself, and what its nodes have logged.
state_of_the_job() {
  forebay status 2>&1 | head -n 30
  for log in /tmp/forebay-*/*/logs/*; do
    if [ -f "$log" ]; then echo "$log:"; grep -v ' INFO ' "$log" | tail -n 8; fi
  done
}

# check NAME COMMAND...
check() {
  local name=$1 began status
  shift
  began=$(seconds)
  "$@" >"$here/output" 2>&1
  status=$?
  if [ $status = 0 ]; then
    echo "PASS $who $name $(echo "$(seconds) $began" | awk '{ printf "%.2f s", $1 - $2 }')"
  else
    echo "FAIL $who $name (status $status)"
    tail -n 40 "$here/output" | sed 's/^/    /'
    state_of_the_job | sed 's/^/    /'
    failed=1
  fi
}

# until_true COMMAND...: waits for it, for wait_seconds at most.
until_true() {
  local end
  end=$(($(cut -d. -f1 /proc/uptime) + wait_seconds))
  until "$@"; do
    [ "$(cut -d. -f1 /proc/uptime)" -lt $end ] || { echo "waited $wait_seconds s in vain for: $*"; return 1; }
    usleep 200000
  done
}

# sums DIRECTORY: every file, its size and its contents; every link.
sums() {
  (cd "$1" && find . -type f | sort | xargs sha1sum && find . -type f | sort | xargs stat -c '%n %s %a %Y' &&
    find . -type l | sort | while read -r link; do echo "$link $(readlink "$link")"; done)
}
# same A B
same() { sums "$1" >"$here/a" && sums "$2" >"$here/b" && cmp "$here/a" "$here/b"; }

# pid RANK: of its daemon; nothing while any of the job's nodes has none.
pid() {
  forebay status --json 2>/dev/null | grep -o '"pid":[0-9][0-9]*' | cut -d: -f2 >"$here/pids"
  [ "$(wc -l <"$here/pids")" != "$nodes" ] || sed -n "$(($1 + 1))p" "$here/pids"
}
is_replaced() { [ -n "$(pid "$1")" ] && [ "$(pid "$1")" != "$2" ]; }

# Sizes that are multiples of nothing, and of every page.
make_export() {
  mkdir -p "$export_dir"/d "$view" "$backing"
  for each in $(seq 1 120); do
    mkdir -p "$export_dir/d/$((each % 12))"
    dd if=/dev/urandom of="$export_dir/d/$((each % 12))/f$each" bs=$((each * 37 + 1)) count=1
  done
  for each in 4096 16384 65536 65535 65537 131072; do head -c $each /dev/urandom >"$export_dir/d/of-$each"; done
  head -c 4200001 /dev/urandom >"$export_dir/large"
  cp /bin/busybox "$export_dir/busybox"
  : >"$export_dir/empty"
  ln -s d/1/f1 "$export_dir/link"
}

# Status 3: a guest has no network but the loopback, and no squashfuse.
finds_what_it_needs() {
  forebay doctor || [ $? = 3 ]
}

view_up() {
  nodes=3
  forebay up --local $nodes --export "$export_dir" --view "$view" --profile off
}
view_same() { same "$export_dir" "$view/$1$export_dir"; }
# Past the page cache, where each read is a request of its own, and at offsets on both sides of a page's end.
view_direct() { dd if="$view/1$export_dir/large" bs=1M iflag=direct | cmp - "$export_dir/large"; }
view_offsets() {
  local at
  for at in 0 1 4095 4096 16383 16385 65535 65537 1048575 4199999; do
    tail -c +$((at + 1)) "$view/2$export_dir/large" | head -c 70000 >"$here/a"
    tail -c +$((at + 1)) "$export_dir/large" | head -c 70000 | cmp - "$here/a" || { echo "at $at"; return 1; }
  done
}
view_is_read_only() { ! touch "$view/0$export_dir/new" && [ ! -e "$export_dir/new" ]; }
# Reads past the page cache again and again, so that requests are under way when the daemon dies.
read_again_and_again() {
  while [ ! -e "$here/stop" ]; do
    if dd if="$view/$1$export_dir/large" bs=64k iflag=direct 2>>"$here/reader" | cmp - "$export_dir/large" 2>>"$here/reader"; then
      echo good >>"$here/passes"
    else
      echo bad >>"$here/passes"
    fi
  done
}
passes() { [ "$(wc -l <"$here/passes")" -ge "$1" ]; }
view_death() { # RANK
  local old reader status=0
  rm -f "$here/stop" "$here/reader"
  : >"$here/passes"
  read_again_and_again "$1" &
  reader=$!
  old=$(pid "$1")
  { until_true passes 1 && kill -9 "$old" && until_true is_replaced "$1" "$old" &&
    until_true passes $(($(wc -l <"$here/passes") + 2)); } || status=1
  : >"$here/stop"
  wait $reader
  if grep -q bad "$here/passes"; then cat "$here/reader"; status=1; fi
  return $status
}
# A path of the list has no blank.
own_paths() {
  (cd "$export_dir" && find . -type f | sort | sed "s#^\.#$export_dir#") >"$here/list"
  xargs sha1sum <"$here/list" >"$here/a"
  forebay run -- /bin/sh -c "xargs $export_dir/busybox sha1sum" <"$here/list" | cmp - "$here/a" &&
    forebay run -- /bin/sh -c "grep ' $export_dir ' /proc/mounts" | grep forebay && ! grep " $export_dir " /proc/mounts
}
ready() { [ "$(forebay status --json | grep -o '"state":"ready"' | wc -l)" = "$nodes" ]; }
status_says() { forebay status && ready; }
refresh() {
  echo changed >"$export_dir/d/1/f1"
  forebay refresh "$export_dir/d/1/f1" && [ "$(cat "$view/2$export_dir/link")" = changed ]
}

burst_up() {
  nodes=2
  forebay up --local $nodes --export "$export_dir" --profile off --burst "$burst=$backing" --burst-store "$store" \
    --burst-capacity 256MiB --burst-mount "$mount"
}
on() { echo "$mount/$1$burst"; }
# Blocks of a size that no page divides, a file that is appended to, one that is replaced, one with a hole, one cut short.
burst_write() {
  dd if="$export_dir/large" of="$(on 0)/large" bs=70001 conv=fsync &&
    cp -r "$export_dir/d" "$(on 1)/d" && sync "$(on 1)"/d/*/* &&
    echo one >"$(on 0)/log" && echo two >>"$(on 0)/log" && cp "$export_dir/empty" "$(on 0)/draft" &&
    echo final >"$(on 0)/draft" && mv "$(on 0)/draft" "$(on 0)/log2" &&
    dd if="$export_dir/d/of-65537" of="$(on 1)/hole" bs=1001 seek=300 count=5 conv=fsync &&
    cp "$export_dir/d/of-131072" "$(on 1)/cut" && truncate -s 65539 "$(on 1)/cut" && ln -s log "$(on 0)/link"
}
burst_expected() {
  [ "$(cat "$1/log" "$1/log2")" = "$(printf 'one\ntwo\nfinal')" ] && cmp "$export_dir/large" "$1/large" &&
    diff -r "$export_dir/d" "$1/d" && { head -c 300300 /dev/zero; head -c 5005 "$export_dir/d/of-65537"; } | cmp - "$1/hole" &&
    head -c 65539 "$export_dir/d/of-131072" | cmp - "$1/cut" && [ "$(readlink "$1/link")" = log ]
}
# A program that writes while the daemon of its node dies sees no error, and everything it wrote is there.
burst_death() { # RANK
  local old writer
  old=$(pid "$1")
  (for part in $(seq 0 39); do dd if="$export_dir/large" bs=100000 skip="$part" count=1 2>/dev/null || exit 1; done >"$(on "$1")/slow") &
  writer=$!
  until_true test -s "$(on "$1")/slow" && kill -9 "$old" && until_true is_replaced "$1" "$old" && wait $writer &&
    head -c 4000000 "$export_dir/large" | cmp - "$(on "$1")/slow"
}
burst_run() { forebay run -- /bin/sh -c "echo run >$burst/by-run && cat $burst/by-run $burst/log" >"$here/a" && [ "$(cat "$here/a")" = "$(printf 'run\none\ntwo')" ]; }
burst_drain() { forebay drain --wait --timeout "${wait_seconds}s" && forebay landed $burst/large $burst/log2 $burst/slow $burst/hole; }
landed() { burst_expected "$backing" && [ "$(cat "$backing/by-run")" = run ] && head -c 4000000 "$export_dir/large" | cmp - "$backing/slow"; }

# holdings: mounts, processes and files of jobs.
holdings() {
  grep -E 'forebay' /proc/mounts
  for each in /proc/[0-9]*/comm; do grep -H '^forebay' "$each" 2>/dev/null; done
  find /tmp /dev/shm /run "$view" "$mount" "$store" -mindepth 1 2>/dev/null
}
nothing_left() { until_true nothing_now || { holdings; return 1; }; }
nothing_now() { [ -z "$(holdings)" ]; }

check export make_export
check doctor finds_what_it_needs
check up view_up
check status status_says
check read view_same 2
check read-direct view_direct
check read-offsets view_offsets
check read-only view_is_read_only
check run own_paths
check death-of-a-leaf view_death 2
check death-of-the-root view_death 0
check read-again view_same 1
check refresh refresh
check down forebay down
check nothing-left nothing_left
check burst-up burst_up
check burst-write burst_write
check burst-read-here burst_expected "$(on 0)"
check burst-read-there burst_expected "$(on 1)"
check burst-death-of-the-writer burst_death 1
check burst-death-of-the-owner burst_death 0
check burst-run burst_run
check burst-drain burst_drain
check burst-status status_says
check burst-down forebay down
check burst-landed landed
check burst-nothing-left nothing_left
if [ $failed = 1 ]; then forebay down --no-drain >/dev/null 2>&1; fi
exit $failed
