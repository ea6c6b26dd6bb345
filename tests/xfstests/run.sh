#!/usr/bin/env bash
# run.sh SOURCE: `make test-xfstests SOURCE=DIR`. Runs tests of xfstests, a tree of whose repository is at SOURCE, on the burst mount of a
# job of two nodes on this machine.
#
# Which tests, list.txt says, or TESTS ("generic/478 generic/504"). SOURCE stays as it is: it is copied to target/xfstests/tree, where a
# test gets a time limit, and built. bin/ has commands that stand in for those of the system: the mount is a job's, so nothing mounts it or
# takes it away. expected.txt names the tests that may fail or not run, with the reason.
#
# Ends with 0 when all others passed, with 1 when one of them failed or did not run. Results are at target/xfstests/results.
set -euo pipefail
NAME=xfstests
(($# == 1)) || { echo "usage: run.sh SOURCE, a directory with the sources of xfstests" >&2; exit 2; }
SOURCE=$(realpath -- "$1")
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
. benches/setup.sh

# A test of these takes a minute at most on an idle machine.
TEST_SECONDS=120
USERS=(fsgqa 123456-fsgqa fsgqa2)
JOB=xfstests-$$

HERE=$PWD/tests/xfstests
WORK=$(realpath -m "$CARGO_TARGET_DIR")/xfstests
TREE=$WORK/tree
RESULTS=$WORK/results

((EUID == 0)) || die "mounts a file system and makes users: run it as root"
[[ -c /dev/fuse ]] || die "no /dev/fuse here: the kernel lacks FUSE, or this is a container without the device"
[[ -f $SOURCE/check && -d $SOURCE/tests/generic ]] || die "$SOURCE has no sources of xfstests"

# add_users: those as which xfstests runs programs.
add_users() {
  local user missing=()
  for user in "${USERS[@]}"; do id -- "$user" >/dev/null 2>&1 || missing+=("$user"); done
  ((${#missing[@]} == 0)) && return
  say "these users are missing and will be added: ${missing[*]}"
  for user in "${missing[@]}"; do useradd --badname --user-group --no-create-home --home-dir / -- "$user" 2>/dev/null; done
}

# build_tree: a copy of SOURCE, built.
build_tree() {
  if [[ ! -e $WORK/built || $(<"$WORK/built") != "$SOURCE" ]]; then
    say "building xfstests in $TREE"
    rm -rf "$TREE" "$WORK/built"
    mkdir -p "$TREE"
    tar -C "$SOURCE" --exclude=./.git -c . | tar -C "$TREE" -x
    make -C "$TREE" >"$WORK/build.log" 2>&1 || die "xfstests cannot be built: see $WORK/build.log"
    printf '%s' "$SOURCE" >"$WORK/built"
  fi
  sed -i "s#; exec \(timeout [^;]* \)\?\./\$seq#; exec timeout --kill-after=10 $TEST_SECONDS ./\$seq#" "$TREE/check"
  grep -q "exec timeout .*$TEST_SECONDS ./\$seq" "$TREE/check" || die "a test cannot be given a time limit: check is another one"
}

# begin_job: a job with a burst tier that other users may write to.
begin_job() {
  # Other users of the machine go there, too.
  BED=$(mktemp -d "${TMPDIR:-/tmp}/forebay-xfstests-XXXXXX")
  export XDG_RUNTIME_DIR=$BED/run
  trap end_job EXIT
  mkdir "$BED"/{run,source,backing,store}
  chmod 755 "$BED" "$BED"/{source,backing}
  "$FOREBAY" up --job "$JOB" --local 2 --export "$BED/source" --burst "/burst/ckpt=$BED/backing" --burst-store "$BED/store" \
    --burst-mount "$BED/mounts" --burst-capacity 4GiB --allow-other >"$BED/up.log" 2>&1 || die "$(<"$BED/up.log")"
}

end_job() {
  "$FOREBAY" down --job "$JOB" --no-drain >/dev/null 2>&1 || true
  rm -rf --one-file-system -- "$BED"
}

# run_tests TEST...: xfstests' own summary goes to results/summary.
run_tests() {
  export FSTYP=fuse FUSE_SUBTYP=.forebay TEST_DIR=$BED/mounts/0/burst/ckpt RESULT_BASE=$RESULTS
  TEST_DEV=$(awk -v at="$TEST_DIR" '$2 == at { print $1 }' /proc/self/mounts)
  [[ -n $TEST_DEV ]] || TEST_DEV=$(awk -v at="$BED/mounts/0" '$2 == at { print $1 }' /proc/self/mounts)
  export TEST_DEV
  # Mounts of the job that are not the one under test.
  TEST_MOUNTS=$(awk -v own="$TEST_DIR" -v of="$TEST_DEV" '$1 == of && $2 != own { print $2 }' /proc/self/mounts | paste -sd'|')
  export TEST_MOUNTS="(${TEST_MOUNTS:-/nowhere})"
  rm -rf "$RESULTS"
  mkdir -p "$RESULTS"
  (cd "$TREE" && PATH=$HERE/bin:$PATH ./check "$@") 2>&1 | tee "$RESULTS/output" || true
}

# of KIND: the tests that xfstests counts as such ("Ran", "Not run", "Failures") in its last lines.
of() { sed -n "s/^$1: *//p" "$RESULTS/output" | tail -n 1 | tr ' ' '\n' | grep . || true; }

# reason TEST: why it did not run, or what was wrong with its output.
reason() {
  local file
  for file in notrun out.bad; do
    [[ ! -e $RESULTS/$1.$file ]] || { head -c 300 "$RESULTS/$1.$file" | tr '\n' ' '; return; }
  done
}

# may TEST KIND: whether expected.txt says that it may do that.
may() { sed "/^#/d; s/ | $2 | .*//; t; d" "$HERE/expected.txt" | tr ' ' '\n' | grep -qx "${1#generic/}"; }

# compare: whether only tests that may do so failed or did not run; says which others did, and which are better than they need be.
compare() {
  local test failed=0 passed
  passed=$(comm -23 <(of Ran | sort) <({ of Failures; of 'Not run'; } | sort))
  for test in $(of Failures); do
    may "$test" fails && continue
    say "$test failed: $(reason "$test")"
    failed=1
  done
  for test in $(of 'Not run'); do
    may "$test" 'does not run' && continue
    say "$test did not run: $(reason "$test")"
    failed=1
  done
  for test in $passed; do
    if may "$test" fails || may "$test" 'does not run'; then say "$test passed, and expected.txt says that it may not"; fi
  done
  passed=$(grep -c . <<<"$passed" || true)
  say "$passed passed, $(of Failures | wc -l) failed, $(of 'Not run' | wc -l) did not run"
  ((passed > 0 && failed == 0))
}

echo 'xfstests: builds the command (release); installs packages and adds the users fsgqa, 123456-fsgqa and fsgqa2 where they are missing' >&2
need gcc:cc make:make automake:automake libtool-bin:libtool pkg-config:pkg-config gawk:gawk bc:bc acl:setfacl attr:getfattr fio:fio quota:quota \
  xfsprogs:xfs_io fuse3:fusermount3 python3:python3 xfslibs-dev:/usr/include/xfs/xfs.h uuid-dev:/usr/include/uuid/uuid.h \
  libattr1-dev:/usr/include/attr/attributes.h libacl1-dev:/usr/include/acl/libacl.h libaio-dev:/usr/include/libaio.h \
  libgdbm-dev:/usr/include/gdbm.h
add_users
if [[ -z ${FOREBAY_BIN:-} ]]; then
  build_release forebay
  FOREBAY_BIN=$(release_dir)/forebay
fi
FOREBAY=$(realpath -- "$FOREBAY_BIN")
mkdir -p "$WORK"
build_tree
begin_job
read -ra TESTS <<<"${TESTS:-$(sed '/^#/d' "$HERE/list.txt" | tr ' ' '\n' | sed 's#^#generic/#' | paste -sd' ')}"
run_tests "${TESTS[@]}"
compare
