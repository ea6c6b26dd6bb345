#!/usr/bin/env bash
# bench-deaths.sh: `make bench-deaths`. Sets up what is missing, then measures how long programs wait for a killed daemon's successor.
set -euo pipefail
NAME=bench-deaths
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

((EUID == 0)) || die "mounts a file system: run it as root"
[[ -c /dev/fuse ]] || die "no /dev/fuse here: the kernel lacks FUSE, or this is a container without the device"
build_release forebay
FOREBAY_BIN=$(realpath -- "$(release_dir)/forebay") exec cargo bench --quiet -p forebay-tests --bench deaths
