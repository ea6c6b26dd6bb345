#!/usr/bin/env bash
# package.sh [TARGET...]: `make package`. All that is published, in target/package, from one commit: a tarball, a deb, an rpm, a wheel, an
# OCI image and a list of components for each target (default: x86_64 and aarch64, musl), and SHA256SUMS. A script makes each kind.
#
# DIST_PROFILE is cargo's profile, as for dist.sh, which builds the binaries. MPI-IO libraries are of this machine's architecture alone:
# PACKAGE_LIBRARIES names files to take instead of building them, PACKAGE_BINARIES a directory of binaries of `make dist`. SQL=1 builds forebay-sql, too (three quarters of an hour of a
# processor); PACKAGE_SQL=FILE packages that binary. PACKAGE_KINDS names kinds; by default all are made. A kind whose tool cannot be had is
# named as not made, and the status is 3 then.
set -euo pipefail
NAME=package
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh
. packaging/commit.sh
. packaging/reproducible.sh
. packaging/target.sh
. packaging/tools.sh

TARGETS=("$@")
((${#TARGETS[@]})) || TARGETS=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl)
CARGO_TARGET_DIR=$(realpath -m "$CARGO_TARGET_DIR")
OUT=$CARGO_TARGET_DIR/package
export DIST_PROFILE=${DIST_PROFILE:-dist}
# The profile `dev` has a folder of another name.
FOLDER=$DIST_PROFILE
[[ $FOLDER != dev ]] || FOLDER=debug
VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
HOST=$(uname -m)
KINDS=${PACKAGE_KINDS:-tarball deb rpm wheel image sbom}
missing=()

# with TOOL SCRIPT ARGUMENT...: runs the script if its kind is wanted and its tool can be had, a name of tools.sh or PACKAGE:COMMAND.
with() {
  local name=$1 started=$SECONDS
  shift
  [[ " $KINDS " == *" ${1%.*} "* ]] || return 0
  if case $name in none) true ;; *:*) (need "$name") ;; *) tool "$name" ;; esac; then
    SOURCE_DATE_EPOCH=$COMMIT_EPOCH "packaging/$1" "${@:2}" || die "$1 failed"
    say "$1: $((SECONDS - started)) s"
  else
    missing+=("$1: no ${name#*:}")
  fi
}

# binaries: builds them, or takes those that are given. None of an earlier run is taken for one of this.
binaries() {
  local target name
  for target in "${TARGETS[@]}"; do
    name=forebay-$VERSION-${target%%-*}-linux
    rm -f "$CARGO_TARGET_DIR/dist/$name"
    [[ ! -x ${PACKAGE_BINARIES:-}/$name ]] || command install -D -m 755 "$PACKAGE_BINARIES/$name" "$CARGO_TARGET_DIR/dist/$name" || return 1
  done
  [[ -n ${PACKAGE_BINARIES:-} ]] || packaging/dist.sh "${TARGETS[@]}"
}

# libraries: builds those of MPI-IO; prints their paths.
libraries() {
  local profile=release folder=release made=$CARGO_TARGET_DIR/package-mpiio
  if [[ -n ${PACKAGE_LIBRARIES+given} ]]; then
    printf '%s' "${PACKAGE_LIBRARIES:+$PACKAGE_LIBRARIES$'\n'}"
    return
  fi
  if ! (need mpich:mpicc.mpich libmpich-dev:mpicc.mpich openmpi-bin:mpicc.openmpi libopenmpi-dev:mpicc.openmpi); then
    say 'NOT made: MPI-IO libraries: no MPI can be had'
    return
  fi
  # Optimising over crates would make the whole of them anew for a library.
  [[ $DIST_PROFILE != dev ]] || profile=dev folder=debug
  cargo rustc --quiet --profile "$profile" --package forebay-mpiio --lib --crate-type staticlib
  mkdir -p "$made"
  MPIIO_STRIP=yes packaging/mpiio.sh "$CARGO_TARGET_DIR/$folder/libforebay_mpiio.a" "$made"
  for each in "$made"/libforebay_mpiio_*.so; do
    if [[ -e $each ]]; then printf '%s\n' "$each"; fi
  done
}

# package TARGET
package() {
  local target=$1 arch=${1%%-*} name stage made libs=()
  name=forebay-$VERSION-$arch-linux stage=$CARGO_TARGET_DIR/$1/$FOLDER/package-root
  if [[ $arch == "$HOST" ]]; then
    made=$(libraries) || die 'the MPI-IO libraries cannot be built'
    [[ -z $made ]] || mapfile -t libs <<<"$made"
  fi
  rm -rf "$stage" && mkdir -p "$stage"
  FOREBAY_RUNS=$CARGO_TARGET_DIR/dist/forebay-$VERSION-$HOST-linux \
    packaging/stage.sh "$stage" "$CARGO_TARGET_DIR/dist/$name" "${libs[@]}"
  find "$stage" -exec touch --no-dereference --date "@$COMMIT_EPOCH" {} +
  with none tarball.sh "$stage" "$OUT/$name.tar.gz"
  with dpkg:dpkg-deb deb.sh forebay "$stage" "$arch" "$OUT"
  with rpm:rpmbuild rpm.sh forebay "$stage" "$arch" "$OUT"
  with python3:python3 wheel.py "$stage" "$arch" "$VERSION" "$OUT"
  with umoci:umoci image.sh "$CARGO_TARGET_DIR/dist/$name" "$arch" "$OUT/$name.oci.tar"
  with cargo-cyclonedx sbom.sh crates/forebay/Cargo.toml "$target" "$OUT/$name.cdx.json"
}

# package_sql TARGET: a static forebay-sql, built or given.
package_sql() {
  local target=$1 name=forebay-sql-$VERSION-${1%%-*}-linux sql=${SQL_TARGET_DIR:-$CARGO_TARGET_DIR/sql} built
  built=$sql/$target/release/forebay-sql
  if [[ -n ${PACKAGE_SQL:-} ]]; then
    command install -D -m 755 "$PACKAGE_SQL" "$built"
  else
    cargo build --release --quiet --manifest-path crates/sql/Cargo.toml --target-dir "$sql" --target "$target"
  fi
  rm -rf "$sql/stage" && command install -D -m 755 "$built" "$sql/stage/bin/forebay-sql"
  with none tarball.sh "$sql/stage" "$OUT/$name.tar.gz"
  with dpkg:dpkg-deb deb.sh forebay-sql "$sql/stage" "${target%%-*}" "$OUT"
  with rpm:rpmbuild rpm.sh forebay-sql "$sql/stage" "${target%%-*}" "$OUT"
  with cargo-cyclonedx sbom.sh crates/sql/Cargo.toml "$target" "$OUT/$name.cdx.json"
}

binaries || { status=$? && [[ $status -eq 3 ]] || exit "$status"; }
[[ -x $CARGO_TARGET_DIR/dist/forebay-$VERSION-$HOST-linux ]] || die "no binary of $HOST, which makes manual pages and completions"
rm -rf "$OUT" && mkdir -p "$OUT"
for target in "${TARGETS[@]}"; do
  if [[ -x $CARGO_TARGET_DIR/dist/forebay-$VERSION-${target%%-*}-linux ]]; then
    say "packaging $target"
    [[ -z ${SQL:-} ]] || use_target "$target"
    package "$target"
    [[ -z ${SQL:-}${PACKAGE_SQL:-} ]] || package_sql "$target"
  else
    missing+=("$target: no binary")
  fi
done
(cd "$OUT" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS && ls -l)
for lack in "${missing[@]}"; do say "NOT made: $lack"; done
((${#missing[@]} == 0)) || exit 3
