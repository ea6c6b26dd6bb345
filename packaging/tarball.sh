#!/usr/bin/env bash
# tarball.sh STAGE FILE.tar.gz: what is staged (stage.sh), below a directory of the archive's name. The same files give the same bytes.
set -euo pipefail
STAGE=$1 FILE=$2
name=$(basename "$FILE" .tar.gz)

mkdir -p "$(dirname "$FILE")"
tar --create --directory "$STAGE" --transform "s|^\.|$name|" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner \
  --mode='u+w,go=u,go-w' --mtime="@$SOURCE_DATE_EPOCH" . | gzip -n -9 >"$FILE.new"
mv "$FILE.new" "$FILE"
