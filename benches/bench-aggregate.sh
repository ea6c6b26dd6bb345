#!/usr/bin/env bash
# bench-aggregate.sh: `make bench-aggregate`. Measures every figure of docs/aggregation.md. Arguments go to
# forebay-bench-aggregate (see its --help). Needs root for mpi-time alone, which makes network namespaces and mounts.
set -euo pipefail
NAME=bench-aggregate
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

need gcc:cc openmpi-bin:mpirun.openmpi libopenmpi-dev:mpicc.openmpi glusterfs-server:glusterfsd \
  glusterfs-client:glusterfs iproute2:ip
build_release forebay forebay-bench
cargo rustc --release --quiet -p forebay-mpiio --lib --crate-type staticlib
FOREBAY_BIN=$(realpath -- "$(release_dir)/forebay") exec "$(release_dir)/forebay-bench-aggregate" "$@"
