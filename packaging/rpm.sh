#!/usr/bin/env bash
# rpm.sh MANIFEST TARGET PROFILE OUT: a package of the RPM family by cargo-generate-rpm, from what is built and staged. MANIFEST says
# what is in it (package.metadata.generate-rpm), as for deb.sh.
set -euo pipefail
MANIFEST=$1 TARGET=$2 PROFILE=$3 OUT=$4
mkdir -p "$OUT"
cargo generate-rpm --package "$(dirname "$MANIFEST")" --target "$TARGET" --target-dir "$CARGO_TARGET_DIR" --profile "$PROFILE" \
  --source-date "$SOURCE_DATE_EPOCH" --auto-req disabled --output "$OUT"
