#!/usr/bin/env bash
# dist.sh [TARGET...]: `make dist`. Static binaries, which run on any Linux of their architecture, whatever its C library.
#
# Each goes to target/dist/forebay-VERSION-ARCHITECTURE-linux, with SHA256SUMS beside them. What a target needs is added
# where it is missing: Rust's standard library by rustup, a C compiler by apt-get (root) or named by CC_TARGET (dashes as
# underscores). A target whose tools cannot be had here is named as not built. Ends with 0 when all were built, with 3
# when some could not be, with another status when a build failed. DIST_PROFILE (default dist) is cargo's profile.
set -euo pipefail
NAME=dist
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

TARGETS=("$@")
((${#TARGETS[@]})) || TARGETS=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl)
DIST=${CARGO_TARGET_DIR:-target}/dist
PROFILE=${DIST_PROFILE:-dist}
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

has_std() { [[ -d $(rustc --print sysroot)/lib/rustlib/$1/lib ]]; }

# add_std TARGET
add_std() {
  has_std "$1" && return
  say "adding Rust's standard library for $1 by rustup"
  command -v rustup >/dev/null && timeout 300 rustup target add "$1" >&2 && has_std "$1"
}

# compiler TARGET: the C compiler for it, set in the environment or installed.
compiler() {
  local arch=${1%%-*} given=CC_${1//-/_} packages
  if [[ -n ${!given:-} ]]; then
    printf '%s\n' "${!given}"
  elif [[ $arch == "$(uname -m)" ]]; then
    (need musl-tools:musl-gcc) && echo musl-gcc
  else
    # The C parts call nothing that musl has not, so the headers of another C library do.
    packages=("gcc-${arch//_/-}-linux-gnu:$arch-linux-gnu-gcc")
    [[ $arch != aarch64 ]] || packages+=(libc6-dev-arm64-cross:/usr/aarch64-linux-gnu/include/stdio.h)
    [[ $arch != x86_64 ]] || packages+=(libc6-dev-amd64-cross:/usr/x86_64-linux-gnu/include/stdio.h)
    (need "${packages[@]}") && echo "$arch-linux-gnu-gcc"
  fi
}

# is_static FILE: asks for no loader and no library.
is_static() {
  local headers
  headers=$(LC_ALL=C readelf -lWd "$1") && ! grep -E 'INTERP|\(NEEDED\)' <<<"$headers" >&2
}

# build TARGET COMPILER
build() {
  local name=${1//-/_} folder=$PROFILE built
  # The profile `dev` has a folder of another name.
  [[ $PROFILE != dev ]] || folder=debug
  built=${CARGO_TARGET_DIR:-target}/$1/$folder/forebay
  # Rust brings the linker and the start-up code for these targets.
  env "CC_$name=$2" "CARGO_TARGET_${name^^}_LINKER=rust-lld" \
    cargo build --profile "$PROFILE" --quiet --package forebay --target "$1"
  is_static "$built" || die "$built is not static: it asks for the above"
  [[ ${1%%-*} != "$(uname -m)" ]] || "$built" --version >&2 || die "$built does not run"
  command install -D -m 755 "$built" "$DIST/forebay-$VERSION-${1%%-*}-linux"
}

missing=()
for target in "${TARGETS[@]}"; do
  if ! add_std "$target"; then
    missing+=("$target: no standard library (rustup target add $target)")
  elif ! cc=$(compiler "$target"); then
    missing+=("$target: no C compiler (name one by CC_${target//-/_})")
  else
    say "building $target"
    build "$target" "$cc"
  fi
done
[[ ! -d $DIST ]] || (cd "$DIST" && sha256sum forebay-* >SHA256SUMS && ls -l forebay-*)
for lack in "${missing[@]}"; do say "NOT built: $lack"; done
((${#missing[@]} == 0)) || exit 3
