#!/usr/bin/env bash
# mpiio.sh ARCHIVE DIRECTORY: libforebay_mpiio_openmpi.so and libforebay_mpiio_mpich.so in DIRECTORY, one for each MPI that is
# found here, from the Rust part (ARCHIVE, libforebay_mpiio.a) and the C sources in crates/mpiio/shim.
#
# An MPI is found by its compiler: FOREBAY_MPICC_OPENMPI and FOREBAY_MPICC_MPICH, else mpicc.openmpi and mpicc.mpich (as Debian
# names them), else mpicc. Any MPI of MPICH's ABI (Intel MPI, MVAPICH, Cray MPICH) is `mpich`. One that is not found is named, and
# so is one that cannot be used (it is older than MPI 3.1, has no MPI-IO, or a compiler without GNU's options); that is no failure.
# With MPIIO_STRIP the linker leaves debug information out: its paths would change the number of the build.
set -euo pipefail

(($# == 2)) || { echo 'usage: mpiio.sh ARCHIVE DIRECTORY' >&2; exit 2; }
ARCHIVE=$1 DIRECTORY=$2
SHIM=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../crates/mpiio/shim" && pwd)
OBJECTS=$(mktemp -d)
trap 'rm -rf "$OBJECTS"' EXIT

say() { printf 'mpiio: %s\n' "$*" >&2; }

# kind COMPILER: which of the two the headers are of.
kind() {
  printf '#include <mpi.h>\n#if defined OPEN_MPI\nIS openmpi\n#elif defined MPICH_VERSION || defined I_MPI_VERSION || defined MVAPICH2_VERSION\nIS mpich\n#endif\n' |
    "$1" -E -x c - 2>/dev/null | sed -n 's/^IS //p'
}

# compiler NAME GIVEN
compiler() {
  local each
  for each in $2 "mpicc.$1" mpicc; do
    if [[ -x $(type -P "$each") && $(kind "$each") == "$1" ]]; then
      printf '%s\n' "$each"
      return
    fi
  done
  return 1
}

# functions COMPILER: the functions that mpi.h has, by the names that have a PMPI_ one as well.
functions() {
  printf '#include <mpi.h>\n' | "$1" -E -x c - | sed '/^#/d' | tr '\n' ' ' |
    grep -oE '\bP?MPIX?_[A-Z][A-Za-z0-9_]* *\(' | tr -d ' (' | sort -u >"$OBJECTS/names"
  grep '^MPI' "$OBJECTS/names" | while read -r name; do ! grep -qx "P$name" "$OBJECTS/names" || echo "$name"; done
}

# handled COMPILER: those that the library stands before by functions of its own.
handled() {
  printf '#include "calls.h"\n#define X(name) HANDLED MPI_##name\nFB_CALLS(X)\n' |
    "$1" -D_GNU_SOURCE -I"$SHIM" -E -x c - | grep -oE 'HANDLED MPI_[A-Za-z_]+' | sed 's/^HANDLED //' | sort -u
}

# gate COMPILER DIRECTORY: gated_calls.h in the directory, all other functions but those of local_calls.txt.
gate() {
  { handled "$1"; grep -v '^#' "$SHIM/local_calls.txt"; } | sort -u >"$OBJECTS/others"
  mkdir -p "$2"
  {
    echo '#define FB_GATED_CALLS(X) \'
    functions "$1" | LC_ALL=C sort -u | while read -r name; do
      grep -qx "$name" "$OBJECTS/others" || printf '  X(%s) \\\n' "$name"
    done
    echo
  } >"$2/gated_calls.h"
  grep -q 'X(MPI_Barrier)' "$2/gated_calls.h" || { say "no function was found in the mpi.h of $1"; return 1; }
}

# build NAME COMPILER TITLE; fails if the MPI cannot be used. MPICH's MPI_STATUSES_IGNORE is an address that nothing lies at, which gcc warns of.
build() {
  local source objects=() gated=$OBJECTS/$1
  gate "$2" "$gated" || return 1
  for source in "$SHIM"/*.c; do
    objects+=("$OBJECTS/$1-$(basename "$source" .c).o")
    "$2" -std=gnu11 -O2 -g1 -fPIC -fvisibility=hidden -Wall -Wextra -Wno-stringop-overflow -D_GNU_SOURCE "-DFB_MPI_NAME=\"$3\"" \
      -I"$gated" -c "$source" -o "${objects[-1]}" || return 1
  done
  # By the C compiler, not MPI's: nothing of MPI may be linked, and `-z defs` proves that nothing asks for it.
  "${CC:-cc}" -shared -o "$OBJECTS/$1.so" "${objects[@]}" "$ARCHIVE" \
    -Wl,--version-script="$SHIM/exports.map" -Wl,-z,defs ${MPIIO_STRIP:+-Wl,--strip-debug} -Wl,-soname,"libforebay_mpiio_$1.so" -Wl,--gc-sections \
    -lgcc_s -lpthread -ldl -lm -lc || return 1
  install -D -m 755 "$OBJECTS/$1.so" "$DIRECTORY/libforebay_mpiio_$1.so" || exit 1
  say "built $DIRECTORY/libforebay_mpiio_$1.so with $2"
}

for each in 'openmpi:Open MPI' 'mpich:MPICH'; do
  name=${each%%:*}
  given=FOREBAY_MPICC_${name^^}
  if cc=$(compiler "$name" "${!given:-}"); then
    build "$name" "$cc" "${each#*:}" || {
      rm -f "$DIRECTORY/libforebay_mpiio_$name.so"
      say "${each#*:} as $cc has it cannot be used (above is why; it takes MPI 3.1 with MPI-IO, and GNU C): its library is not built"
    }
  else
    say "no ${each#*:} here (its compiler, by $given, mpicc.$name or mpicc): its library is not built"
  fi
done
