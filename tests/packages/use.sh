#!/bin/sh
# use.sh DIRECTORY [PREFIX]: what a user does first with the command in DIRECTORY; of an installation below PREFIX also its manual pages,
# completions and modules. Within the root of run.sh, as an ordinary user.
set -e
bin=$1 prefix=$2
PATH=$bin:$PATH
fail() { echo "use: $*" >&2; exit 1; }
times=
# timed NAME COMMAND...
timed() {
  name=$1 began=$(date +%s%N) result=0
  shift
  "$@" || result=$?
  times="$times $name $((($(date +%s%N) - began) / 1000000)) ms;"
  return $result
}

[ "$(command -v forebay)" = "$bin/forebay" ] || fail "the command is $(command -v forebay)"
forebay version --json | grep -q '"features":{.*"static":true' || fail 'version says of another binary'
status=0
timed doctor forebay doctor >/tmp/doctor || status=$?
case $status in 0 | 3) ;; *) cat /tmp/doctor >&2 && fail "doctor: status $status" ;; esac

timed up forebay up --local 2 --export /usr >&2
for rank in 0 1; do
  timed run forebay run --rank $rank -- true
  forebay run --rank $rank -- cat /usr/share/common-licenses/Apache-2.0 | cmp - /usr/share/common-licenses/Apache-2.0 || fail "node $rank shows other bytes"
  forebay run --rank $rank -- sh -c 'grep -q "/usr fuse" /proc/self/mounts' || fail "node $rank does not show /usr by itself"
done
timed down forebay down >&2
echo "use:$times" >&2
! grep -q " fuse\.forebay " /proc/mounts || fail "mounts are left: $(grep " fuse\.forebay " /proc/mounts)"
for each in /proc/[0-9]*; do
  [ "$(cat "$each/comm" 2>/dev/null)" != forebay ] || grep -q '^State:.Z' "$each/status" || fail "process ${each#/proc/} is left"
done
left=$(find /tmp /dev/shm -name '*forebay*' ! -path "/tmp/forebay-$(id -u)" 2>/dev/null)
[ -z "$left" ] || fail "left in /tmp: $left"

[ -n "$prefix" ] || exit 0
for page in forebay forebay-up forebay-version; do [ -s "$prefix/share/man/man1/$page.1" ] || fail "no manual page $page"; done
grep -q forebay "$prefix/share/bash-completion/completions/forebay" || fail 'no completions'
for kind in lua tcl; do
  # Lmod reads both; of two it takes its own.
  mkdir -p "/tmp/$kind$prefix/share/forebay" && cp -r "$prefix/share/forebay/modulefile" "/tmp/$kind$prefix/share/forebay/"
  [ $kind = lua ] || rm "/tmp/$kind$prefix/share/forebay/modulefile/forebay/"*.lua
  mkdir -p "/tmp/$kind$prefix/bin" && ln -s "$bin/forebay" "/tmp/$kind$prefix/bin/forebay"
  found=$(PATH=/usr/bin:/bin bash -c '. /usr/share/lmod/lmod/init/bash && module use "$1/share/forebay/modulefile" &&
    module load forebay && command -v forebay' use "/tmp/$kind$prefix") || fail "module ($kind) does not load"
  [ "$found" = "/tmp/$kind$prefix/bin/forebay" ] || [ "$prefix" = /usr ] || fail "the module ($kind) finds '$found'"
  rm -r "/tmp/$kind"*
done
