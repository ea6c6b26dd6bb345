#!/usr/bin/env bash
# bench-read.sh: `make bench-read`. Sets up what is missing, then measures every figure of docs/performance.md and docs/measurements.md.
# Needs root: it makes network namespaces and mounts. Arguments go to forebay-bench-read (see its --help).
set -euo pipefail
NAME=bench-read
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

TREE=${PYTHON_TREE:-target/python-tree}
((EUID == 0)) || die "makes network namespaces and mounts: run it as root"
[[ -c /dev/fuse ]] || die "no /dev/fuse here: the kernel lacks FUSE, or this is a container without the device"
need fuse3:fusermount3 python3:python3 python3-venv:pip glusterfs-server:glusterfsd glusterfs-client:glusterfs \
  iproute2:ip squashfs-tools:mksquashfs squashfuse:squashfuse zstd:zstd
benches/python-tree.sh "$TREE"
build_release forebay forebay-bench
exec "$(release_dir)/forebay-bench-read" --tree "$TREE" --forebay "$(release_dir)/forebay" "$@"
