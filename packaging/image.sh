#!/usr/bin/env bash
# image.sh BINARY ARCHITECTURE FILE.tar: an OCI image by umoci, with nothing in it but the static binary, as the archive of a layout.
#
# podman load -i FILE.tar, or skopeo copy oci-archive:FILE.tar ... takes it. The image serves as a source of the binary and for commands that
# need no mount; a job's nodes run the binary itself.
set -euo pipefail
BINARY=$1 ARCHITECTURE=$2 FILE=$3
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
image=$made/layout:$VERSION
created=$(TZ=UTC0 date -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
case $ARCHITECTURE in x86_64) architecture=amd64 ;; aarch64) architecture=arm64 ;; *) architecture=$ARCHITECTURE ;; esac

umoci init --layout "$made/layout"
umoci new --image "$image"
install -m 755 "$BINARY" "$made/forebay"
touch -d "@$SOURCE_DATE_EPOCH" "$made/forebay"
umoci insert --rootless --history.created "$created" --history.author packaging --image "$image" "$made/forebay" /forebay
umoci config --image "$image" --architecture "$architecture" --os linux --created "$created" --config.entrypoint /forebay \
  --history.created "$created" --history.author packaging \
  --config.label "org.opencontainers.image.title=forebay" \
  --config.label "org.opencontainers.image.version=$VERSION" \
  --config.label "org.opencontainers.image.revision=${FOREBAY_COMMIT:-unknown}" \
  --config.label "org.opencontainers.image.created=$created" \
  --config.label "org.opencontainers.image.licenses=Apache-2.0"
umoci gc --layout "$made/layout"
mkdir -p "$(dirname "$FILE")"
tar --create --directory "$made/layout" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode='u+w,go=rX' \
  --mtime="@$SOURCE_DATE_EPOCH" --file "$FILE" blobs index.json oci-layout
