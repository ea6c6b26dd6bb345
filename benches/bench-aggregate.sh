#!/usr/bin/env bash
# bench-aggregate.sh: `make bench-aggregate`. Measures every figure of docs/aggregation.md. Arguments go to
# forebay-bench-aggregate (see its --help).
set -euo pipefail
NAME=bench-aggregate
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

need gcc:cc openmpi-bin:mpirun.openmpi libopenmpi-dev:mpicc.openmpi
build_release forebay forebay-bench
cargo rustc --release --quiet -p forebay-mpiio --lib --crate-type staticlib
FOREBAY_BIN=$(realpath -- "$(release_dir)/forebay") exec "$(release_dir)/forebay-bench-aggregate" "$@"
