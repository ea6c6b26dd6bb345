#!/usr/bin/env bash
# bench-containers.sh: `make bench-containers`. Sets up what is missing, then measures how long programs in images take to start, by
# ch-run and by `forebay run --image`, and says whether the bars are met.
# Needs root: it makes network namespaces, mounts, and drops the kernel's caches. Arguments: --nodes N, --quick, --json FILE.
set -euo pipefail
NAME=bench-containers
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

((EUID == 0)) || die "makes network namespaces and mounts: run it as root"
[[ -c /dev/fuse ]] || die "no /dev/fuse here: the kernel lacks FUSE, or this is a container without the device"
need fuse3:fusermount3 python3:python3 python3-venv:pip glusterfs-server:glusterfsd glusterfs-client:glusterfs iproute2:ip \
  squashfs-tools:mksquashfs squashfuse:squashfuse charliecloud-runtime:ch-run
build_release forebay
TREE=${PYTHON_TREE:-target/python-tree}
benches/python-tree.sh "$TREE"
out=${BENCH_DIR:-target/bench}
mkdir -p -- "$out"
exec python3 benches/containers.py --tree "$(realpath -- "$TREE")" --forebay "$(realpath -- "$(release_dir)/forebay")" --work "$out" --json "$out/containers.json" "$@"
