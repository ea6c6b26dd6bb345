#!/usr/bin/env bash
# rpm.sh NAME STAGE ARCHITECTURE OUT: a package of the RPM family by rpmbuild, with what is staged (stage.sh) below /usr. The same files and
# the same rpmbuild give the same bytes.
set -euo pipefail
NAME=$1 STAGE=$2 ARCHITECTURE=$3 OUT=$4
. packaging/about.sh
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
usr=$made/staged/usr

packaged "$STAGE" "$usr"
install -D -m 644 LICENSE "$usr/share/licenses/$NAME/LICENSE"
# Files, and the directories that no other package has.
(cd "$made/staged" && find usr ! -type d -printf '/%p\n' && find usr -type d -path "*/$NAME*" -printf '%%dir /%p\n') >"$made/files"
{
  printf '%s: %s\n' Name "$NAME" Version "$VERSION" Release 1 Summary "$SUMMARY" License "$LICENSE" AutoReqProv no Requires "$REQUIRES"
  [[ -z $RECOMMENDS ]] || printf '%s: %s\n' Recommends "$RECOMMENDS"
  [[ -z $SUGGESTS ]] || printf '%s: %s\n' Suggests "$SUGGESTS"
  printf '%%%s\n' description && printf '%s\n' "$DESCRIPTION"
  printf '%%install\nmkdir -p "%%{buildroot}" && cp -R "%s/." "%%{buildroot}/"\n' "$made/staged"
  printf '%%files -f %s\n%%defattr(-,root,root)\n' "$made/files"
} >"$made/spec"
mkdir -p "$OUT"
# Nothing is stripped, compressed or looked into: it is as it was staged.
rpmbuild --quiet -bb --target "$ARCHITECTURE-linux" --define "_topdir $made/top" --define "_rpmdir $OUT" \
  --define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' --define '_binary_payload w9.zstdio' --define 'debug_package %{nil}' \
  --define '__os_install_post %{nil}' --define '_build_id_links none' --define '_buildhost forebay' --define 'source_date_epoch_from_changelog 0' \
  --define 'use_source_date_epoch_as_buildtime 1' --define 'clamp_mtime_to_source_date_epoch 1' "$made/spec" >/dev/null
