#!/usr/bin/env bash
# uninstall.sh PREFIX: `make uninstall`. Removes the files that share/forebay/files.txt below DESTDIR/PREFIX lists, and the directories
# that the installation made, where they are empty then; says what it has left in directories of ours, and what was missing. The list goes
# last, so that a removal that was broken off is finished by the next.
set -euo pipefail
HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
PREFIX=$1
. "$HERE/listed.sh"

root=${DESTDIR:-}$PREFIX
[[ $PREFIX == /* ]] || die "PREFIX is to be an absolute path: '$PREFIX'"
if [[ ! -e $root/$LIST ]]; then
  [[ ! -e $root/bin/forebay ]] || die "$root/bin/forebay has no list of files ($LIST): make install there again, then make uninstall"
  say "nothing to remove: there is no $root/$LIST"
  exit 0
fi
lines=$(listed "$root/$LIST")
grep -v '/$' <<<"$lines" | grep -vxF "$LIST" | remove_below "$root"
{ echo "$LIST" && grep '/$' <<<"$lines"; } | remove_below "$root"
say "removed $(grep -vc '/$' <<<"$lines") files below $root"
for directory in $OURS; do
  [[ ! -d $root/$directory ]] || find "$root/$directory" ! -type d -printf "forebay: left, for it is not ours: %p\n"
done
