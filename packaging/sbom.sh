#!/usr/bin/env bash
# sbom.sh MANIFEST TARGET FILE.json: what a binary of TARGET is made of, as CycloneDX, by cargo-cyclonedx. It writes beside manifests, so it
# runs in a copy of the sources that git knows, and paths of the copy are taken out.
set -euo pipefail
MANIFEST=$1 TARGET=$2 FILE=$3
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

if [[ -e .git ]]; then git ls-files -z; else find . -type f -not -path './target/*' -print0; fi |
  tar --create --null --files-from - --ignore-failed-read 2>/dev/null | tar --extract --directory "$made"
(cd "$made" && cargo cyclonedx --quiet --manifest-path "$MANIFEST" --format json --spec-version 1.5 --target "$TARGET" --override-filename sbom)
mkdir -p "$(dirname "$FILE")"
sed "s|$made|/forebay|g" "$made/$(dirname "$MANIFEST")/sbom.json" >"$FILE"
