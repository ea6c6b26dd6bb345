#!/usr/bin/env bash
# bench-bulk.sh: `make bench-bulk`. Sets up what is missing, then measures reads of model weights and of training data, each figure with its
# bar. Arguments are those of bulk.py after the first two: parts (weights, epochs, killed, second, first-epoch, backing-reads, dlio) and options.
# FOREBAY_BIN is a binary to measure instead of one that is built. Needs root for weights and first-epoch; works in BENCH_DIR.
set -euo pipefail
NAME=bench-bulk
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

# wants PART ARGUMENT...: whether the part is named, or none is.
wants() {
  local part=$1 word named=
  shift
  for word; do
    case $word in
      "$part") return 0 ;;
      weights | epochs | killed | second | first-epoch | backing-reads | dlio) named=1 ;;
    esac
  done
  [[ -z $named ]]
}

[[ -c /dev/fuse ]] || die "no /dev/fuse here: the kernel lacks FUSE, or this is a container without the device"
packages=(fuse3:fusermount3 python3:python3 strace:strace)
if wants weights "$@" || wants first-epoch "$@"; then
  ((EUID == 0)) || die "weights and first-epoch make network namespaces and mounts: run it as root, or name other parts"
  packages+=(glusterfs-server:glusterfsd glusterfs-client:glusterfs iproute2:ip)
  packages+=(gcc:cc openmpi-bin:mpirun.openmpi libopenmpi-dev:mpicc.openmpi)
fi
if wants dlio "$@"; then
  packages+=(python3-venv:pip python3-torch:/usr/lib/python3/dist-packages/torch openmpi-bin:mpirun.openmpi)
fi
need "${packages[@]}"
out=${BENCH_DIR:-target/bench}
mkdir -p -- "$out"
if wants dlio "$@"; then
  benches/bulk/dlio-setup.sh "$out/dlio"
fi
if [[ -z ${FOREBAY_BIN:-} ]]; then
  build_release forebay
  FOREBAY_BIN=$(release_dir)/forebay
fi
exec python3 benches/bulk.py "$(realpath -- "$FOREBAY_BIN")" "$out" --dlio-python "$out/dlio/bin/python" "$@"
