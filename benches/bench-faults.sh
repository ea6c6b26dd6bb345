#!/usr/bin/env bash
# bench-faults.sh: `make bench-faults`. Sets up what is missing, then measures the table of docs/reliability.md.
# Needs root: it makes network namespaces and mounts. Arguments: --only NAME, --json FILE, --markdown FILE.
set -euo pipefail
NAME=bench-faults
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

((EUID == 0)) || die "makes network namespaces and mounts: run it as root"
[[ -c /dev/fuse ]] || die "no /dev/fuse here: the kernel lacks FUSE, or this is a container without the device"
need fuse3:fusermount3 python3:python3 glusterfs-server:glusterfsd glusterfs-client:glusterfs iproute2:ip
build_release forebay
FOREBAY_BIN=$(realpath -- "$(release_dir)/forebay") exec cargo bench --quiet -p forebay-tests --bench faults -- "$@"
