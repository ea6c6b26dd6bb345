#!/usr/bin/env bash
# stage.sh DIRECTORY BINARY [LIBRARY...]: a whole installation below DIRECTORY, as below a PREFIX. The one list of what an
# installation has: the tarball, the packages and `make install` all take theirs from here.
#
# FOREBAY_RUNS is a forebay that runs on this machine and makes completions and manual pages (default BINARY); those of one
# commit are alike on all architectures. Files of an installation are listed in share/forebay/files.txt, which uninstall.sh reads.
set -euo pipefail
# An installation is for all, whatever the umask of its maker.
umask 022
(($# >= 2)) || { echo 'usage: stage.sh DIRECTORY BINARY [LIBRARY...]' >&2; exit 2; }
HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
ROOT=$1 BINARY=$2
shift 2
RUNS=${FOREBAY_RUNS:-$BINARY}
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' "$HERE/../Cargo.toml" | head -n 1)

# put MODE TARGET FILE...: into the directory TARGET, or as TARGET where it does not end in a slash.
put() {
  local mode=$1 target=$ROOT/$2
  shift 2
  if [[ $target == */ ]]; then
    mkdir -p "$target" && install -m "$mode" -t "$target" "$@"
  else
    install -D -m "$mode" "$@" "$target"
  fi
}

# made TARGET COMMAND...: what the command prints.
made() {
  local target=$ROOT/$1
  shift
  mkdir -p "${target%/*}" && "$@" >"$target" && chmod 644 "$target"
}

# needs_of LIBRARY: the latest version of glibc's functions that it asks for.
needs_of() { LC_ALL=C objdump -T "$1" 2>/dev/null | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1; }

# readme LIBRARY...: README.packaged, with what the libraries need.
readme() {
  local library
  local needs='is static and needs no library'
  if readelf -d "$BINARY" 2>/dev/null | grep -q NEEDED; then needs="needs $(needs_of "$BINARY") or later"; fi
  sed "s/@VERSION@/$VERSION/g; s/@NEEDS@/$needs/" "$HERE/README.packaged"
  (($#)) || echo 'This package has no MPI-IO library: build it from source (docs/mpiio.md).'
  for library; do
    printf -- '- lib/%s: needs %s or later and no MPI itself.\n' "${library##*/}" "$(needs_of "$library")"
  done
}

put 755 bin/forebay "$BINARY"
for library; do put 755 lib/ "$library"; done
put 644 include/ "$HERE"/../include/*.h "$HERE"/../include/*.f90

mkdir -p "$ROOT/share/man/man1"
"$RUNS" man "$ROOT/share/man/man1"
chmod 644 "$ROOT"/share/man/man1/*
made share/bash-completion/completions/forebay "$RUNS" completions bash
made share/zsh/site-functions/_forebay "$RUNS" completions zsh
made share/fish/vendor_completions.d/forebay.fish "$RUNS" completions fish

put 644 share/doc/forebay/ "$HERE/../LICENSE" "$HERE/../CHANGELOG.md" "$HERE/../docs/install.md"
made share/doc/forebay/README readme "$@"
put 755 share/forebay/epilog.sh "$HERE/epilog.sh"
put 644 share/forebay/forebay.lua "$HERE/slurm/forebay.lua"
put 644 share/forebay/grafana/forebay.json "$HERE/grafana/forebay.json"
put 644 "share/forebay/modulefile/forebay/$VERSION.lua" "$HERE/modulefile/forebay.lua"
put 644 "share/forebay/modulefile/forebay/$VERSION" "$HERE/modulefile/forebay.tcl"

# With itself.
list=$ROOT/share/forebay/files.txt
: >"$list"
(cd "$ROOT" && find . ! -type d | sed 's|^\./||' | LC_ALL=C sort) >"$ROOT.list"
mv "$ROOT.list" "$list"
chmod 644 "$list"
