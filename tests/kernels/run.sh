#!/usr/bin/env bash
# run.sh: `make test-kernels`. Boots kernels of Debian under qemu and runs the static binary in each, as root and as a user.
#
# KERNELS names them as VERSION-FLAVOUR, which stands for Debian's newest package linux-image-VERSION.*-FLAVOUR. The guest is
# that kernel and a file system in memory: busybox, fusermount3 and its C library from Debian, `forebay` from packaging/dist.sh,
# and guest-init.sh, which runs guest-check.sh. One guest runs at a time. Packages are kept in target/kernels/ for the next time.
#
# A kernel that cannot be run here is named and counted as not run. Ends with 0 when all that ran passed, with 1 when one failed,
# when none ran, or with CI=true when one could not be run.
set -euo pipefail
NAME=kernels
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
. benches/setup.sh

# 5.10 is the oldest that Debian keeps; before 6.9 no kernel sends the requests of a dead daemon again; pages of 16 KiB.
read -ra KERNELS <<<"${KERNELS:-5.10-cloud-amd64 6.1-cloud-amd64 6.12-arm64-16k}"
# An emulated guest takes a minute or two; a machine that is busy with other things, several times that.
GUEST_SECONDS=${GUEST_SECONDS:-900}
GUEST_MEMORY_MIB=2048
# Under KVM Linux says its version within a second. Some machines have a /dev/kvm that runs nothing.
PROBE_SECONDS=20

WORK=$(realpath -m "${CARGO_TARGET_DIR:-target}")/kernels
DIST=$(realpath -m "${CARGO_TARGET_DIR:-target}")/dist
HERE=$PWD/tests/kernels
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# architecture KERNEL: Debian's name of it.
architecture() {
  case $1 in
    *-amd64) echo amd64 ;;
    *-arm64 | *-arm64-16k) echo arm64 ;;
    *) return 1 ;;
  esac
}

# machine ARCHITECTURE: the kernel's, Rust's and qemu's name of it.
machine() {
  case $1 in
    amd64) echo x86_64 ;;
    arm64) echo aarch64 ;;
  esac
}

# mirror ARCHIVE: the URL of `debian` or `debian-security` that this machine's apt uses, else the public one.
mirror() {
  local url
  url=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -v '^ *#' |
    grep -oE "(https?|file)://[^ ]*/$1/?( |\$)" | head -n 1 | tr -d ' ') || true
  printf '%s\n' "${url:-http://deb.debian.org/$1}"
}

# private_apt: an apt of our own, with more suites and architectures, which leaves this machine's as it is.
private_apt() {
  local suite apt=$WORK/apt
  mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,etc/{apt.conf.d,preferences.d}}
  : >"$apt/status"
  {
    for suite in bullseye bookworm trixie; do
      printf 'deb [signed-by=%s] %s %s main\n' "$KEYRING" "$(mirror debian)" "$suite"
      printf 'deb [signed-by=%s] %s %s-security main\n' "$KEYRING" "$(mirror debian-security)" "$suite"
    done
  } >"$apt/etc/sources.list"
  cat >"$apt/conf" <<CONF
Dir "$apt"; Dir::State "state"; Dir::State::status "$apt/status"; Dir::Cache "cache"; Dir::Etc "etc";
APT::Architecture "amd64"; APT::Architectures { "amd64"; "arm64"; }; APT::Sandbox::User "root"; Acquire::Languages "none";
CONF
  export APT_CONFIG=$apt/conf
  # A suite that cannot be had leaves the others, and the lists of the last time.
  apt-get -qq update >&2 || say 'apt-get could not bring all lists up to date: going on with those that are there'
}

# package KERNEL: the newest package of it; the pattern leaves out other flavours, such as cloud-amd64 for amd64.
package() {
  local version=${1%%-*} flavour=${1#*-}
  apt-cache pkgnames "linux-image-$version." |
    grep -xE "linux-image-${version//./\\.}\.([0-9.+~-]|deb|bpo)*-$flavour" | sort -V | tail -n 1 | grep .
}

# deb PACKAGE:ARCHITECTURE: its file, downloaded if it is not here.
deb() {
  local file name=${1%:*} arch=${1#*:}
  mkdir -p "$WORK/packages"
  file=$(compgen -G "$WORK/packages/${name}_*_$arch.deb" | head -n 1) || true
  if [[ -z $file ]]; then
    (cd "$WORK/packages" && apt-get -qq download "$1" >&2) || return 1
    file=$(compgen -G "$WORK/packages/${name}_*_$arch.deb" | head -n 1) || return 1
  fi
  printf '%s\n' "$file"
}

# emulator ARCHITECTURE: qemu's command without an accelerator and without a processor.
emulator() {
  case $1 in
    amd64) echo qemu-system-x86_64 -M q35 ;;
    arm64) echo qemu-system-aarch64 -M virt ;;
  esac
}
console() { case $1 in amd64) echo ttyS0 ;; arm64) echo ttyAMA0 ;; esac }

# boot SECONDS CONSOLE-FILE ARCHITECTURE ACCELERATOR OPTION...: one guest; ends with it, or after SECONDS.
boot() {
  local seconds=$1 file=$2 arch=$3 accelerator=$4 processor=host
  shift 4
  # cortex-a57, the usual choice, has no pages of 16 KiB: such a kernel says nothing at all.
  [[ $accelerator == kvm ]] || case $arch in amd64) processor=max ;; arm64) processor=neoverse-n1 ;; esac
  # shellcheck disable=SC2046
  timeout --foreground "$seconds" $(emulator "$arch") -cpu "$processor" -accel "$accelerator" -smp 2 -m "$GUEST_MEMORY_MIB" -nodefaults \
    -display none -monitor none -no-reboot -serial "file:$file" "$@" </dev/null &
  GUEST=$!
  wait "$GUEST" || true
  GUEST=
}

# find_accelerator ARCHITECTURE IMAGE: ACCELERATOR is kvm if a guest says a word under it, else tcg, qemu's emulation.
find_accelerator() {
  ACCELERATOR=tcg
  if [[ $(machine "$1") == "$(uname -m)" && -w /dev/kvm ]]; then
    # Without a root file system the kernel panics, and -no-reboot ends qemu.
    boot "$PROBE_SECONDS" "$WORK/probe" "$1" kvm -kernel "$2" -append "console=$(console "$1") panic=-1" 2>/dev/null
    if grep -aqs 'Linux version' "$WORK/probe"; then ACCELERATOR=kvm; fi
  fi
}

# extract DEB DIRECTORY
extract() { mkdir -p "$2" && dpkg-deb -x "$1" "$2"; }

# build_root KERNEL-DIRECTORY ARCHITECTURE: the guest's file system, at $WORK/root.cpio.
build_root() {
  local root=$WORK/root parts=$WORK/parts file name arch=$2
  rm -rf "$root" "$parts"
  mkdir -p "$root"/{bin,dev,lib,tests}
  for name in busybox-static fuse3 libc6; do
    file=$(deb "$name:$arch") && extract "$file" "$parts" || return 1
  done
  cp "$(find "$parts" -path '*bin/busybox')" "$root/bin/busybox"
  cp "$(find "$parts" -path '*bin/fusermount3')" "$root/bin/fusermount3"
  # The C library of fusermount3 and its loader, where its header names that.
  find "$parts" \( -name 'ld-linux-*.so.*' -o -name libc.so.6 \) -exec cp -L {} "$root/lib/" \;
  ln -s lib "$root/lib64"
  cp "$DIST/forebay-$VERSION-$(machine "$arch")-linux" "$root/bin/forebay"
  cp "$HERE"/guest-*.sh "$root/tests/"
  mv "$root/tests/guest-init.sh" "$root/init"
  chmod 755 "$root" "$root/init" "$root"/bin/*
  chmod 4755 "$root/bin/fusermount3"
  file=$(find "$1" -name 'fuse.ko*' | head -n 1)
  case $file in
    *.xz) xz -dc "$file" >"$root/fuse.ko" ;;
    ?*) cp "$file" "$root/fuse.ko" ;;
  esac
  (cd "$root" && find . | cpio -o -H newc --quiet --owner 0:0) | gzip -1 >"$WORK/root.cpio"
}

# lack KERNEL WHY: counts it as not run.
lack() {
  say "$1: NOT RUN: $2"
  NOT_RUN=$((NOT_RUN + 1))
}

# check KERNEL
check() {
  local kernel=$1 arch package file image log=$WORK/$1.log started=$SECONDS
  arch=$(architecture "$kernel") || { lack "$kernel" 'only flavours amd64, arm64 and arm64-16k are known here'; return; }
  package=$(package "$kernel") || { lack "$kernel" 'no such kernel in the lists of packages'; return; }
  [[ -e $DIST/forebay-$VERSION-$(machine "$arch")-linux ]] || { lack "$kernel" "no static binary for $arch"; return; }
  file=$(deb "$package:$arch") || { lack "$kernel" "$package cannot be downloaded"; return; }
  rm -rf "$WORK/kernel" "$log"
  extract "$file" "$WORK/kernel"
  build_root "$WORK/kernel" "$arch" || { lack "$kernel" 'a package of its guest cannot be downloaded'; return; }
  image=$(find "$WORK/kernel/boot" -name 'vmlinu*' | head -n 1)
  find_accelerator "$arch" "$image"
  say "$kernel: $package, $ACCELERATOR"
  boot "$GUEST_SECONDS" "$log" "$arch" "$ACCELERATOR" -kernel "$image" -initrd "$WORK/root.cpio" \
    -append "console=$(console "$arch") quiet panic=-1"
  [[ -e $log ]] || : >"$log"
  tr -d '\r' <"$log" | grep -aE '^(machine|PASS|FAIL|    )' || true
  if grep -aq '^result: passed' "$log"; then
    say "$kernel: passed, $((SECONDS - started)) s"
    PASSED=$((PASSED + 1))
  else
    say "$kernel: FAILED, $((SECONDS - started)) s; its console is in $log"
    FAILED=$((FAILED + 1))
  fi
}

# build_binaries: for the architectures of the kernels that were named.
build_binaries() {
  local kernel arch status=0 targets=()
  for kernel in "${KERNELS[@]}"; do
    if arch=$(architecture "$kernel"); then targets+=("$(machine "$arch")-unknown-linux-musl"); fi
  done
  ((${#targets[@]})) || return 0
  # A binary of an earlier build is not what is tested.
  rm -f "$DIST/forebay-$VERSION"-*
  mapfile -t targets < <(printf '%s\n' "${targets[@]}" | sort -u)
  packaging/dist.sh "${targets[@]}" >&2 || status=$?
  ((status == 0 || status == 3)) || die 'the static binary cannot be built: see above'
}

# need_programs: what this script runs; without them nothing can be run.
need_programs() {
  local kernel arch packages=(cpio:cpio xz-utils:xz "debian-archive-keyring:$KEYRING")
  { command -v apt-get && command -v dpkg-deb; } >/dev/null || die 'no apt-get or no dpkg-deb here: kernels come from packages of Debian'
  for kernel in "${KERNELS[@]}"; do
    if arch=$(architecture "$kernel"); then
      case $arch in
        amd64) packages+=(qemu-system-x86:qemu-system-x86_64) ;;
        arm64) packages+=(qemu-system-arm:qemu-system-aarch64) ;;
      esac
    fi
  done
  need "${packages[@]}"
}

PASSED=0 FAILED=0 NOT_RUN=0 GUEST=''
# A guest that is under way ends with this script.
trap '[[ -z $GUEST ]] || kill "$GUEST"; rm -rf "$WORK"/{root,parts,kernel,root.cpio,probe}' EXIT
need_programs
build_binaries
mkdir -p "$WORK"
private_apt
for kernel in "${KERNELS[@]}"; do check "$kernel"; done
say "$PASSED passed, $FAILED failed, $NOT_RUN not run"
((FAILED == 0 && PASSED > 0)) || exit 1
[[ ${CI:-} != true ]] || ((NOT_RUN == 0))
