#!/usr/bin/env bash
# install.sh PREFIX BINARY SQL_BINARY [LIBRARY...]: `make install`. Copies what was built below DESTDIR/PREFIX, with completions,
# manual pages and site files (stage.sh has the list); builds nothing. Files of an earlier installation there that this one has not
# are removed. A binary of SQL that does not exist is left out, and so are libraries.
set -euo pipefail
HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
PREFIX=$1 BINARY=$2 SQL=$3
shift 3
. "$HERE/listed.sh"

# machine_of FILE: the architecture of a program, by the number in its head (e_machine of elf(5)).
machine_of() {
  case $(od -An -tu2 -j18 -N2 "$1" | tr -d ' ') in
    62) echo x86_64 ;;
    183) echo aarch64 ;;
    '') echo 'no program' ;;
    *) echo 'another architecture' ;;
  esac
}

[[ $PREFIX == /* ]] || die "PREFIX is to be an absolute path: '$PREFIX'"
# Of make build; or the static one of make dist and make package.
if [[ ! -x $BINARY ]]; then
  dist=$(compgen -G "${BINARY%/release/forebay}/dist/forebay-*-$(uname -m)-linux" | head -n 1) || true
  BINARY=${dist:-$BINARY}
fi
[[ -x $BINARY ]] || die "there is no $BINARY: make build first, or make package"
machine=$(machine_of "$BINARY")
[[ $machine == "$(machine_of /proc/self/exe)" ]] ||
  die "$BINARY is for $machine, this machine is $(uname -m): install the binary of its architecture"
"$BINARY" --version >/dev/null || die "$BINARY does not run on this machine: build it here, or install the static one (make package)"

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

# Directories of these files that are not there yet will be this installation's.
while IFS= read -r directory; do
  [[ -e $root/$directory ]] || printf '%s/\n' "$directory"
done < <(cd "$staged" && find . -type d | sed 's|^\./||') >>"$list"

# The list first: an installation that is broken off can be removed.
while IFS= read -r file; do
  mode=644
  [[ ! -x $staged/$file ]] || mode=755
  install -D -m "$mode" "$staged/$file" "$root/$file"
done < <(echo "$LIST" && grep -vxF "$LIST" "$staged/files")
say "installed $(wc -l <"$staged/files") files below $root"
