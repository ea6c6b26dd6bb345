#!/usr/bin/env bash
# demo.sh: `make demo`. Sets up what is missing, then shows Forebay's four paths on this machine. The default downloads nothing but
# crates and Debian's packages. BIG=1 takes scikit-learn and pandas instead of the standard library (450 MB from PyPI).
# BACKING=gluster runs over GlusterFS in network namespaces (root only); the default is a model of a network file system.
# Further arguments go to forebay-demo (see its --help), but for those that are given below.
set -euo pipefail
NAME=demo
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

BACKING=${BACKING:-model} BIG=${BIG:-}
[[ $BIG != 0 ]] || BIG=
# Modules of the tree would be compiled elsewhere.
unset PYTHONPYCACHEPREFIX
packages=(fuse3:fusermount3 python3:python3 gcc:cc libc6-dev:/usr/include/stdio.h)
[[ -z $BIG ]] || packages+=(python3-venv:pip)
case $BACKING in
  model) ;;
  gluster)
    ((EUID == 0)) || die "BACKING=gluster makes network namespaces and mounts: run it as root"
    packages+=(glusterfs-server:glusterfsd glusterfs-client:glusterfs iproute2:ip) ;;
  *) die "BACKING is model or gluster, not '$BACKING'" ;;
esac

# check_fuse: before anything is installed or built, because no package can help.
check_fuse() {
  [[ -e /dev/fuse ]] || die "no /dev/fuse here: the kernel lacks FUSE (as root: modprobe fuse), or this is a container" \
    "without the device (start it with --device /dev/fuse)"
  [[ -c /dev/fuse && $(stat -c %t:%T /dev/fuse) == a:e5 ]] ||
    die "/dev/fuse is not the FUSE device: remove what hides it, or start the container with --device /dev/fuse"
  { : <>/dev/fuse; } 2>/dev/null || die "/dev/fuse cannot be opened by $(id -un): as root, chmod 666 /dev/fuse; in a container," \
    "allow the device (--device /dev/fuse)"
}

# check_tools: those that no package of Debian has in a version that serves.
check_tools() {
  command -v cargo >/dev/null || die "no cargo here: install a Rust toolchain (https://rustup.rs) and put it into PATH"
  python3 -c '' || die "python3 does not start; see above (PYTHONHOME and PYTHONPATH are '${PYTHONHOME:-}' and '${PYTHONPATH:-}')"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' ||
    die "needs python3 3.9 or newer, found $(python3 -V 2>&1): put a newer one first into PATH"
}

# make_tree: into $TREE.
make_tree() {
  if [[ -n $BIG ]]; then
    TREE=${PYTHON_TREE:-target/python-tree}
    benches/python-tree.sh "$TREE"
  else
    TREE=target/demo/tree
    say "preparing the tree that the nodes import from (a copy of Python's standard library and 240 small modules)"
    python3 benches/demo/tree.py "$TREE"
  fi
}

# build: only what the demo runs.
build() {
  local quiet=(--quiet)
  # On a terminal cargo shows how far it is.
  [[ ! -t 2 ]] || quiet=()
  say "building forebay and the demo (release; some minutes on two cores the first time)"
  cargo build --release "${quiet[@]}" -p forebay -p forebay-bench --bin forebay --bin forebay-demo
  # Without an MPI the demo shows a prediction instead, and with one it needs the library.
  if has mpicc.openmpi && has mpirun.openmpi || { has mpicc.mpich && has mpiexec.mpich; }; then
    say "building the library for MPI-IO programs, because an MPI is installed"
    cargo rustc --release "${quiet[@]}" -p forebay-mpiio --lib --crate-type staticlib
    packaging/mpiio.sh "$(release_dir)/libforebay_mpiio.a" "$(release_dir)" || say "it does not build; going on without"
  fi
}

check_fuse
need "${packages[@]}"
check_tools
make_tree
build
exec "$(release_dir)/forebay-demo" --backing "$BACKING" --tree "$TREE" ${BIG:+--big} --forebay "$(release_dir)/forebay" \
  --json "target/demo/$BACKING${BIG:+-big}.json" "$@"
