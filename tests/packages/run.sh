#!/usr/bin/env bash
# run.sh: `make test-packages`. Installs what packaging/package.sh makes, each kind in a fresh root of Debian 12, uses it there as an
# ordinary user without a network, removes it, and looks for what is left: files, mounts, processes.
#
# KINDS names kinds: tarball deb wheel make (make install, make uninstall) rpm. The root is made by debootstrap and kept in
# target/packages/; each kind has a layer over it of its own. DIST_PROFILE is cargo's profile, by default dev, which is built fastest.
# DIST_TARGETS names targets (default: this machine's architecture, musl): packages of another one are looked into (labels.py), and their
# binary runs under qemu. PACKAGE_KINDS, as for package.sh.
# No root of the RPM family can be had by tools of Debian: the rpm is installed into one of Debian by `rpm --root`, its requirements
# are read, and it is removed. A kind that cannot be tested here is named; the others are. Ends with 0 when all that ran passed, with 3
# when something could not be tested, with 1 when a check failed.
set -euo pipefail
NAME=packages
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
. benches/setup.sh

read -ra KINDS <<<"${KINDS:-tarball deb wheel make rpm}"
CARGO_TARGET_DIR=$(realpath -m "$CARGO_TARGET_DIR")
WORK=$CARGO_TARGET_DIR/packages
BASE=$WORK/debian
OUT=$CARGO_TARGET_DIR/package
HERE=$PWD/tests/packages
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
ARCH=$(uname -m)
read -ra TARGETS <<<"${DIST_TARGETS:-$ARCH-unknown-linux-musl}"
export DIST_PROFILE=${DIST_PROFILE:-dev} CARGO_PROFILE_DEV_STRIP=symbols
INCLUDED=fuse3,python3-venv,lmod,tcl

missing=() STARTED=$SECONDS
((EUID == 0)) || die 'needs root: a mount namespace with a root of its own'

# timed NAME COMMAND...
timed() {
  local started=${EPOCHREALTIME/[.,]/}
  "${@:2}"
  say "$1: $(((${EPOCHREALTIME/[.,]/} - started) / 1000)) ms"
}

# base: the root that all begin with. Made anew where its list of packages is another.
base() {
  [[ $(cat "$BASE.made" 2>/dev/null) != "$INCLUDED" ]] || return 0
  local mirror
  mirror=$(grep -hoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1 | tr -d ' ') || true
  rm -rf --one-file-system "$BASE" "$BASE.made" && mkdir -p "$WORK"
  say "making a root of Debian 12 in $BASE by debootstrap"
  debootstrap --variant=minbase --include="$INCLUDED" bookworm "$BASE" "${mirror:-http://deb.debian.org/debian}" >"$WORK/debootstrap.log" 2>&1 || return 1
  # fusermount3 wants it (docs/install.md), and minimal images lack it.
  ln -sf /proc/self/mounts "$BASE/etc/mtab"
  chroot "$BASE" useradd --create-home --shell /bin/sh tester || return 1
  rm -f "$BASE"/var/cache/apt/archives/*.deb
  echo "$INCLUDED" >"$BASE.made"
}

at_end() {
  local each
  while read -r each; do umount -l "$each"; done < <(awk -v work="$WORK/" 'index($2, work) == 1 { print $2 }' /proc/self/mounts | sort -r)
}
trap at_end EXIT

# fresh KIND: an empty layer over the base; sets ROOT.
fresh() {
  ROOT=$WORK/$1/root
  rm -rf --one-file-system "${WORK:?}/$1"
  mkdir -p "$WORK/$1"/{root,upper,work}
  mount -t overlay overlay -o "lowerdir=$BASE,upperdir=$WORK/$1/upper,workdir=$WORK/$1/work" "$ROOT"
  mkdir -p "$ROOT/packages"
  find "$OUT" "$HERE" -type f \( -name "*$ARCH*" -o -name '*.deb' -o -name use.sh -o -name client.py \) -exec cp -t "$ROOT/packages" {} +
  files >"$WORK/$1/before"
}

# within USER COMMAND...: in the root, in namespaces of its own without a network; all its processes end with it.
within() {
  timeout --kill-after=10 600 unshare --mount --net --ipc --pid --fork --kill-child "$HERE/enter.sh" "$ROOT" "$@"
}

# files: all that the root has, but what package managers and Python note down for themselves.
files() {
  (cd "$ROOT" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./run -o -path ./packages -o -path ./var/log \
    -o -path ./var/lib/dpkg -o -path ./var/cache -o -path ./root/.rpmdb -o -path ./home/tester/.local -o -path ./home/tester/.cache \
    -o -name __pycache__ \) -prune -o -print | LC_ALL=C sort)
}

# nothing_left KIND
nothing_left() {
  local left
  left=$(files | LC_ALL=C comm -13 "$WORK/$1/before" -)
  [[ -z $left ]] || { printf '%s\n' "$left" >&2 && die "$1: the above is left after it was removed"; }
}

test_tarball() {
  timed 'tarball: install' within root tar -xzf "/packages/forebay-$VERSION-$ARCH-linux.tar.gz" -C /opt
  within tester sh /packages/use.sh "/opt/forebay-$VERSION-$ARCH-linux/bin" "/opt/forebay-$VERSION-$ARCH-linux"
  # Wherever it lies.
  within root mv "/opt/forebay-$VERSION-$ARCH-linux" /srv/moved
  within tester sh /packages/use.sh /srv/moved/bin /srv/moved
  timed 'tarball: remove' within root rm -r /srv/moved
}

test_deb() {
  timed 'deb: install' within root sh -c 'dpkg -i "/packages/forebay_$1-1_$(dpkg --print-architecture).deb"' sh "$VERSION" >&2
  within tester sh /packages/use.sh /usr/bin /usr
  timed 'deb: remove' within root dpkg --purge forebay >&2
}

test_wheel() {
  # Nothing from an index: it has to be whole.
  within tester sh -c 'cd && python3 -m venv venv'
  timed 'wheel: install' within tester sh -c 'cd && venv/bin/pip install --quiet --no-index /packages/*.whl'
  within tester sh -c 'sh /packages/use.sh "$HOME/venv/bin"'
  within tester sh -c '$HOME/venv/bin/python /packages/client.py'
  timed 'wheel: remove' within tester sh -c 'cd && venv/bin/pip uninstall --quiet --yes forebay'
  within tester sh -c 'cd && test ! -e venv/bin/forebay &&
    ! venv/bin/python -c "import forebay" 2>/dev/null && rm -r venv'
}

# refused WORD SCRIPT ARGUMENT...: a script of packaging fails, and its message has the word.
refused() {
  local word=$1 said
  shift
  if said=$(DESTDIR=$ROOT "packaging/$1.sh" "${@:2}" 2>&1); then die "$*: it was not refused: $said"; fi
  [[ $said == *"$word"* ]] || die "$*: the message lacks '$word': $said"
}

# A binary of another architecture is refused, and nothing is written.
test_make_foreign() {
  local other=$WORK/make/foreign foreign=aarch64 machine='\xb7'
  [[ $ARCH == x86_64 ]] || foreign=x86_64 machine='\x3e'
  cp "$1" "$other"
  # Of ELF's head, e_machine.
  printf '%b' "$machine" | dd of="$other" bs=1 seek=18 conv=notrunc status=none
  refused "of $foreign" install /usr/local "$other" none
  refused "of $foreign" install /usr/local "$1" none "$other"
  nothing_left make
}

# Installations that are over another one, removed in part, without their list, or removed already.
test_make_in_part() {
  local prefix=/srv/part root=$ROOT/srv/part
  DESTDIR=$ROOT packaging/install.sh $prefix "$1" none >&2
  # Of an older version.
  touch "$root/share/forebay/old" "$root/share/forebay/theirs" && sed -i '1i share/forebay/old' "$root/share/forebay/files.txt"
  rm -r "$root/bin/forebay" "$root/share/man"
  DESTDIR=$ROOT packaging/install.sh $prefix "$1" none >&2
  [[ ! -e $root/share/forebay/old && -x $root/bin/forebay && -s $root/share/man/man1/forebay.1 ]] || die 'make: installed over another, it is not whole'
  rm "$root/share/forebay/files.txt"
  refused 'make install there again' uninstall $prefix
  DESTDIR=$ROOT packaging/install.sh $prefix "$1" none >&2
  DESTDIR=$ROOT packaging/uninstall.sh $prefix | grep -qF 'left, for it is not ours' || die 'make: a file of others is not named'
  DESTDIR=$ROOT packaging/uninstall.sh $prefix | grep -qF 'nothing to remove' || die 'make: a second removal does not say so'
  [[ $(find "$root" ! -type d) == "$root/share/forebay/theirs" ]] || die "make: it left $(find "$root" ! -type d)"
  rm -r "$root"
}

test_make() {
  local binary=$CARGO_TARGET_DIR/dist/forebay-$VERSION-$ARCH-linux
  test_make_foreign "$binary"
  test_make_in_part "$binary"
  DESTDIR=$ROOT timed 'make: install' packaging/install.sh /usr/local "$binary" none >&2
  within tester sh /packages/use.sh /usr/local/bin /usr/local
  # Broken off, and begun again.
  rm "$ROOT/usr/local/bin/forebay" "$ROOT/usr/local/share/man/man1/forebay-up.1"
  DESTDIR=$ROOT timed 'make: remove' packaging/uninstall.sh /usr/local >&2
}

test_rpm() {
  local rpm=("$OUT"/forebay-[0-9]*."$ARCH".rpm) requires
  requires=$(rpm -qp --requires "${rpm[0]}")
  say "rpm: requires $(tr '\n' ' ' <<<"$requires")"
  grep -qx fuse3 <<<"$requires" || die 'the rpm does not require fuse3'
  rpm -qp --recommends "${rpm[0]}" | grep -qx munge || die 'the rpm does not recommend munge'
  rpm --root "$ROOT" --initdb
  # Debian's own packages are unknown to it.
  timed 'rpm: install' rpm --root "$ROOT" --nodeps -i "${rpm[0]}"
  rpm --root "$ROOT" --nodeps -V forebay
  within tester sh /packages/use.sh /usr/bin /usr
  timed 'rpm: remove' rpm --root "$ROOT" -e forebay
  # Of `filesystem`, `zsh` and `fish` there, which such a root would have.
  rmdir "$ROOT"/usr/share/zsh/site-functions "$ROOT"/usr/share/zsh "$ROOT"/usr/share/fish/vendor_completions.d "$ROOT"/usr/share/fish \
    "$ROOT"/usr/share/licenses
  missing+=('rpm: no root of that family can be had here; installed into one of Debian')
}

# test_kind KIND
test_kind() {
  fresh "$1"
  "test_$1"
  nothing_left "$1"
  umount "$ROOT"
}

# objects: what each binary and library asks for.
objects() {
  local stage=$CARGO_TARGET_DIR/$ARCH-unknown-linux-musl/$([[ $DIST_PROFILE == dev ]] && echo debug || echo "$DIST_PROFILE")/package-root each needed
  for each in "$stage"/bin/* "$stage"/lib/*; do
    [[ -e $each ]] || continue
    needed=$(LC_ALL=C readelf -d "$each" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | tr '\n' ' ')
    say "${each##*/}: needs ${needed:-no library} $(LC_ALL=C objdump -T "$each" 2>/dev/null | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)"
    [[ $each != */bin/* || -z $needed ]] || die "$each is not static"
    [[ $needed != *libmpi* ]] || die "$each needs an MPI by name"
  done
}

# foreign TARGET: the binary for another architecture runs.
foreign() {
  local arch=${1%%-*} said
  if ! (need "qemu-user-static:qemu-$arch-static"); then
    missing+=("$1: no emulator of $arch")
  elif [[ ! -x $CARGO_TARGET_DIR/dist/forebay-$VERSION-$arch-linux ]]; then
    missing+=("$1: it was not built")
  else
    said=$("qemu-$arch-static" "$CARGO_TARGET_DIR/dist/forebay-$VERSION-$arch-linux" version) || die "the binary for $arch does not run"
    grep -q "$1" <<<"$said" || die "the binary for $arch says of itself: $said"
  fi
}

need debootstrap:debootstrap fuse3:fusermount3 rpm:rpm binutils:readelf python3:python3
status=0
timed build packaging/package.sh "${TARGETS[@]}" >&2 || status=$?
[[ $status -eq 0 || $status -eq 3 ]] || die 'the packages could not be made (see above)'
timed objects objects
timed labels "$HERE/labels.py" "$OUT" "$CARGO_TARGET_DIR/dist"
for target in "${TARGETS[@]}"; do [[ ${target%%-*} == "$ARCH" ]] || timed "$target" foreign "$target"; done
if ! timed root base; then
  say "NOT tested: no root can be had here ($WORK/debootstrap.log)"
  exit 3
fi
for kind in "${KINDS[@]}"; do
  case $kind in
    tarball) made=$OUT/forebay-$VERSION-$ARCH-linux.tar.gz ;;
    make) made=$CARGO_TARGET_DIR/dist/forebay-$VERSION-$ARCH-linux ;;
    wheel) made=$(compgen -G "$OUT/*$ARCH*.whl" || true) ;;
    deb) made=$(compgen -G "$OUT/forebay_*_$(dpkg --print-architecture).deb" || true) ;;
    rpm) made=$(compgen -G "$OUT/forebay-[0-9]*.$ARCH.rpm" || true) ;;
    *) die "there is no kind $kind" ;;
  esac
  if [[ -e $made ]]; then timed "$kind" test_kind "$kind"; else missing+=("$kind: it was not made"); fi
done
for lack in "${missing[@]}"; do say "NOT tested: $lack"; done
say "all: $((SECONDS - STARTED)) s"
[[ ${#missing[@]} -eq 0 || ${missing[*]} == rpm:* ]] || exit 3
