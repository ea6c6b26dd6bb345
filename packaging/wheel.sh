#!/usr/bin/env bash
# wheel.sh TARGET PROFILE OUT: a wheel by maturin, with the command and the client for Python (packaging/wheel). maturin calls cargo,
# which finds the binary that dist.sh has built with the same flags, and builds nothing.
set -euo pipefail
TARGET=$1 PROFILE=$2 OUT=$3
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

sed "s|@VERSION@|$VERSION|; s|@MANIFEST@|$PWD/crates/forebay/Cargo.toml|" packaging/wheel/pyproject.toml >"$made/pyproject.toml"
cp python/forebay.py "$made/"
sed "s/@VERSION@/$VERSION/" packaging/wheel/README.md >"$made/README.md"
# A static binary asks for no C library, and runs beside any.
(cd "$made" && maturin build --quiet --locked --profile "$PROFILE" --target "$TARGET" --auditwheel skip \
  --compatibility manylinux_2_17 musllinux_1_1 --out "$made/out")
mkdir -p "$OUT" && mv "$made"/out/*.whl "$OUT/"
