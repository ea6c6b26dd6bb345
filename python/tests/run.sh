#!/usr/bin/env bash
# run.sh: `make test-python`. The client's tests, with its types checked by `mypy --strict`.
#
# FOREBAY_COMMAND: the command, by default that of the dev profile. TORCH: what pip is to install for the tests of PyTorch, by default
# `torch`; empty: nothing, and they are skipped. The environment stays in target/python.
set -euo pipefail
NAME=python
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
. benches/setup.sh

TORCH=${TORCH-torch}
ENVIRONMENT=$(realpath -m "$CARGO_TARGET_DIR")/python
export FOREBAY_COMMAND=${FOREBAY_COMMAND:-$(realpath -m "$CARGO_TARGET_DIR")/debug/forebay} PYTHONDONTWRITEBYTECODE=1

need python3-venv:pip fuse3:fusermount3
[[ -x $ENVIRONMENT/bin/python ]] || python3 -m venv "$ENVIRONMENT"
# Where it has them already, nothing is asked of the index.
for each in mypy $TORCH; do
  "$ENVIRONMENT/bin/python" -c "import ${each%%[=<>]*}" 2>/dev/null || {
    say "installing $each by pip into $ENVIRONMENT"
    "$ENVIRONMENT/bin/pip" install --quiet --disable-pip-version-check "$each"
  }
done
export PYTHONPATH=$PWD/python
if [[ -n $TORCH ]]; then
  (cd python && "$ENVIRONMENT/bin/mypy" --strict forebay)
else
  (cd python && "$ENVIRONMENT/bin/mypy" --strict --exclude torch.py forebay)
fi
cd python/tests && exec "$ENVIRONMENT/bin/python" -m unittest "$@"
