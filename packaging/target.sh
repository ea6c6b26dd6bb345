# shellcheck shell=bash
# target.sh: what a static build for a target needs; sourced after benches/setup.sh.

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

# use_target TARGET: sets and exports its C compiler and linker, for every cargo after it: cargo builds anew where they differ.
use_target() {
  local name=${1//-/_} cc
  cc=$(compiler "$1") || return 1
  # Rust brings the linker and the start-up code for these targets.
  export "CC_$name=$cc" "CARGO_TARGET_${name^^}_LINKER=$PWD/packaging/linker/rust-lld"
}
