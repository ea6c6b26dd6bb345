#!/usr/bin/env bash
# deb.sh MANIFEST TARGET PROFILE OUT: a package of Debian by cargo-deb, from what is built and staged. MANIFEST says what is in it
# (package.metadata.deb): its paths below target/release are cargo-deb's words for the directory of TARGET and PROFILE.
set -euo pipefail
MANIFEST=$1 TARGET=$2 PROFILE=$3 OUT=$4
mkdir -p "$OUT"
# The modification times in the archive are SOURCE_DATE_EPOCH, which cargo-deb reads.
cargo deb --quiet --no-build --no-strip --no-dbgsym --manifest-path "$MANIFEST" --target "$TARGET" --profile "$PROFILE" --output "$OUT"
