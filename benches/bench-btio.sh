#!/usr/bin/env bash
# bench-btio.sh: part of `make bench-write`. Times a program like BTIO over PnetCDF with ROMIO's hints and without. Arguments go to btio.py
# (see its --help). Needs root.
set -euo pipefail
NAME=bench-btio
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

need gcc:cc python3:python3 openmpi-bin:mpirun.openmpi libopenmpi-dev:mpicc.openmpi libpnetcdf-dev:/usr/include/pnetcdf.h
build_release forebay
cargo rustc --release --quiet -p forebay-mpiio --lib --crate-type staticlib
packaging/mpiio.sh "$(release_dir)/libforebay_mpiio.a" "$(release_dir)" >&2
exec python3 benches/btio.py --forebay "$(realpath -- "$(release_dir)/forebay")" "$@"
