#!/usr/bin/env bash
# check-simgrid.sh: `make check-simgrid`. Compares the flow model of aggregation with SimGrid's on random cases. Arguments go
# to forebay-check-simgrid (see its --help).
set -euo pipefail
NAME=check-simgrid
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

need g++:g++ libsimgrid-dev:/usr/include/simgrid/s4u.hpp
FLOWS=${CARGO_TARGET_DIR:-target}/simgrid/flows
mkdir -p "$(dirname -- "$FLOWS")"
g++ -std=c++17 -O2 -Wall -o "$FLOWS" benches/simgrid/flows.cpp -lsimgrid
build_release forebay-bench
exec "$(release_dir)/forebay-check-simgrid" --flows "$FLOWS" "$@"
