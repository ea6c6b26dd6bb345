#!/usr/bin/env bash
# install.sh PREFIX BINARY SQL_BINARY [LIBRARY...]: `make install`. Copies what was built below DESTDIR/PREFIX, with completions,
# manual pages and site files (stage.sh has the list); builds nothing. Files of an earlier installation there that this one has not
# are removed. A binary of SQL that does not exist is left out, and so are libraries.
set -euo pipefail
HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
PREFIX=$1 BINARY=$2 SQL=$3
shift 3
. "$HERE/listed.sh"

# of_this_machine FILE: unless its head (ELF's e_machine) says otherwise. Where the kernel has an emulator for others, those would run.
of_this_machine() {
  local head of
  [[ -e $1 ]] || return 0
  head=$(od -An -tx1 -N 20 -- "$1" | tr -d ' \n')
  case $head in 7f454c46*3e00) of=x86_64 ;; 7f454c46*b700) of=aarch64 ;; *) return 0 ;; esac
  [[ $of == "$(uname -m)" ]] || die "$1 is of $of, and this machine of $(uname -m): nothing is installed"
}

[[ $PREFIX == /* ]] || die "PREFIX is to be an absolute path: '$PREFIX'"
# Of make build; or the static one of make dist and make package.
if [[ ! -x $BINARY ]]; then
  dist=$(compgen -G "${BINARY%/release/forebay}/dist/forebay-*-$(uname -m)-linux" | head -n 1) || true
  BINARY=${dist:-$BINARY}
fi
[[ -x $BINARY ]] || die "there is no $BINARY: make build first, or make package"
for each in "$BINARY" "$SQL" "$@"; do of_this_machine "$each"; done
"$BINARY" --version >/dev/null || die "$BINARY does not run on this machine (see above): nothing is installed"

staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT
libraries=()
for library; do [[ ! -e $library ]] || libraries+=("$library"); done
"$HERE/stage.sh" "$staged" "$BINARY" "${libraries[@]}"
if [[ -x $SQL ]]; then
  install -m 755 "$SQL" "$staged/bin/forebay-sql"
  (cat "$staged/$LIST" && echo bin/forebay-sql) | LC_ALL=C sort >"$staged/list" && mv "$staged/list" "$staged/$LIST"
fi

root=${DESTDIR:-}$PREFIX
list=$staged/$LIST
cp "$list" "$staged/files"
if [[ -e $root/$LIST ]]; then
  listed "$root/$LIST" | grep -v '/$' | LC_ALL=C sort | LC_ALL=C comm -23 - "$staged/files" | remove_below "$root"
  listed "$root/$LIST" | grep '/$' >>"$list" || true
fi

# Directories of these files that are not there yet will be this installation's, and so are those of our name, whose list may be lost.
while IFS= read -r directory; do
  [[ -e $root/$directory && $directory/ != share/forebay/* && $directory != share/doc/forebay ]] || printf '%s/\n' "$directory"
done < <(cd "$staged" && find . -type d | sed 's|^\./||') >>"$list"
LC_ALL=C sort -u -o "$list" "$list"

# The list first: an installation that is broken off can be removed.
while IFS= read -r file; do
  mode=644
  [[ ! -x $staged/$file ]] || mode=755
  install -D -m "$mode" "$staged/$file" "$root/$file"
done < <(echo "$LIST" && grep -vxF "$LIST" "$staged/files")
say "installed $(wc -l <"$staged/files") files below $root"
