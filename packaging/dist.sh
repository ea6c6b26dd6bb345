#!/usr/bin/env bash
# dist.sh [TARGET...]: `make dist`. Static binaries, which run on any Linux of their architecture, whatever its C library.
#
# Each goes to target/dist/forebay-VERSION-ARCHITECTURE-linux, with SHA256SUMS beside them. What a target needs is added
# where it is missing: Rust's standard library by rustup, a C compiler by apt-get (root) or named by CC_TARGET (dashes as
# underscores). A target whose tools cannot be had here is named as not built. Ends with 0 when all were built, with 3
# when some could not be, with another status when a build failed. DIST_PROFILE (default dist) is cargo's profile. A binary
# of that profile with more than DIST_BYTES_MAX bytes is a failure.
#
# The same commit gives the same bytes, wherever it lies (packaging/check-reproducible.sh). So names of functions for the
# addresses of a stripped binary are made when they are needed: CARGO_PROFILE_DIST_STRIP=none make dist.
set -euo pipefail
NAME=dist
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh
. packaging/commit.sh
. packaging/reproducible.sh
. packaging/target.sh

TARGETS=("$@")
((${#TARGETS[@]})) || TARGETS=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl)
DIST=${CARGO_TARGET_DIR:-target}/dist
PROFILE=${DIST_PROFILE:-dist}
# x86_64 has 17.7 MB, of which .text is 15.4 MB: the aim of 15 MB is missed (docs/measurements.md).
BYTES_MAX=${DIST_BYTES_MAX:-18000000}
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# is_static FILE: asks for no loader and no library.
is_static() {
  local headers
  headers=$(LC_ALL=C readelf -lWd "$1") && ! grep -E 'INTERP|\(NEEDED\)' <<<"$headers" >&2
}

# fits FILE
fits() {
  local bytes
  bytes=$(stat -c %s "$1")
  [[ $PROFILE != dist ]] || ((bytes <= BYTES_MAX)) || die "$1 has $bytes bytes, more than $BYTES_MAX (DIST_BYTES_MAX)"
}

# build TARGET
build() {
  local folder=$PROFILE built
  # The profile `dev` has a folder of another name.
  [[ $PROFILE != dev ]] || folder=debug
  built=${CARGO_TARGET_DIR:-target}/$1/$folder/forebay
  cargo build --profile "$PROFILE" --quiet --package forebay --target "$1"
  is_static "$built" || die "$built is not static: it asks for the above"
  [[ ${1%%-*} != "$(uname -m)" ]] || "$built" version >&2 || die "$built does not run"
  fits "$built"
  command install -D -m 755 "$built" "$DIST/forebay-$VERSION-${1%%-*}-linux"
}

missing=()
for target in "${TARGETS[@]}"; do
  if ! add_std "$target"; then
    missing+=("$target: no standard library (rustup target add $target)")
  elif ! use_target "$target"; then
    missing+=("$target: no C compiler (name one by CC_${target//-/_})")
  else
    say "building $target"
    build "$target"
  fi
done
[[ ! -d $DIST ]] || (cd "$DIST" && sha256sum forebay-* >SHA256SUMS && ls -l forebay-*)
for lack in "${missing[@]}"; do say "NOT built: $lack"; done
((${#missing[@]} == 0)) || exit 3
