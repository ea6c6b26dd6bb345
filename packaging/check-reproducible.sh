#!/usr/bin/env bash
# check-reproducible.sh [TARGET [PACKAGES]]: builds the commit that is checked out here in two clones at different paths, each with a target
# directory of its own, makes all packages of TARGET (default: this machine's architecture, musl) in both, and compares them byte by byte.
# Then it looks for paths of this machine in the binary. Takes as long as two `make package`. With PACKAGES, a directory of packages of the
# same commit, whoever made them, it builds one clone and compares with those. DIST_PROFILE and PACKAGE_KINDS, as for package.sh.
set -euo pipefail
NAME=reproducible
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

TARGET=${1:-$(uname -m)-unknown-linux-musl} GIVEN=${2:-}
here=$PWD
[[ -z $GIVEN ]] || compgen -G "$GIVEN/*-${TARGET%%-*}-linux.tar.gz" >/dev/null || die "$GIVEN has no packages of ${TARGET%%-*}"
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS SOURCE_DATE_EPOCH FOREBAY_COMMIT FOREBAY_COMMIT_DATE
[[ -z $(git status --porcelain --untracked-files=no) ]] || say 'this tree has changes: the commit is checked, without them'

# of DIRECTORY: a clone there, its packages, and a list of their sums.
of() {
  git clone --quiet "$here" "$1"
  (cd "$1" && CARGO_TARGET_DIR=$1/$2 packaging/package.sh "$TARGET" >&2) || { local status=$? && [[ $status -eq 3 ]] || exit "$status"; }
  (cd "$1/$2/package" && sha256sum -- * | grep -v ' SHA256SUMS$') >"$made/sums-$2"
}

of "$made/a" one
if [[ -n $GIVEN ]]; then
  # Those of its names alone: others are of other architectures.
  (cd "$made/a/one/package" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort) |
    (cd "$GIVEN" && xargs sha256sum --) >"$made/sums-two" || die "$GIVEN lacks the above"
else
  of "$made/another clone, deeper/b" two
fi
cat "$made/sums-one" >&2
diff "$made/sums-one" "$made/sums-two" >&2 || die 'the above differ'
binary=$(echo "$made"/a/one/dist/forebay-*-"${TARGET%%-*}"-linux)
for path in "$made" "$here" "$HOME" "$(rustc --print sysroot)"; do
  ! LC_ALL=C grep -aqF "$path/" "$binary" || die "the binary has the path $path: $(strings "$binary" | grep -F "$path/" | head -n 3)"
done
say "$(wc -l <"$made/sums-one") packages are alike, and the binary has no path of this machine"
