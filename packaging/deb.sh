#!/usr/bin/env bash
# deb.sh NAME STAGE ARCHITECTURE OUT: a package of Debian by dpkg-deb, with what is staged (stage.sh) below /usr. The same files and the
# same dpkg-deb give the same bytes.
set -euo pipefail
NAME=$1 STAGE=$2 ARCHITECTURE=$3 OUT=$4
. packaging/about.sh
case $ARCHITECTURE in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$ARCHITECTURE ;; esac
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
root=$made/root usr=$made/root/usr

packaged "$STAGE" "$usr"
# Where Debian's zsh looks.
[[ ! -d $usr/share/zsh/site-functions ]] || mv "$usr/share/zsh/site-functions" "$usr/share/zsh/vendor-completions"
mkdir -p "$root/DEBIAN"
install -D -m 644 LICENSE "$usr/share/doc/$NAME/copyright"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
{
  printf '%s: %s\n' Package "$NAME" Version "$VERSION-1" Architecture "$arch" Maintainer "$MAINTAINER" Section net Priority optional \
    Installed-Size "$(find "$usr" -type f -printf '%s\n' | awk '{ sum += $1 } END { print int(sum / 1024) + 1 }')" Depends "$REQUIRES"
  [[ -z $RECOMMENDS ]] || printf '%s: %s\n' Recommends "$RECOMMENDS"
  [[ -z $SUGGESTS ]] || printf '%s: %s\n' Suggests "$SUGGESTS"
  printf 'Description: %s\n %s\n' "$SUMMARY" "$DESCRIPTION"
} >"$root/DEBIAN/control"
chmod 755 "$root" "$root/DEBIAN"
find "$root" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$OUT"
# With several threads the bytes would differ from those with one.
DPKG_DEB_THREADS_MAX=1 dpkg-deb --root-owner-group -Zxz --build "$root" "$OUT/${NAME}_$VERSION-1_$arch.deb" >/dev/null
