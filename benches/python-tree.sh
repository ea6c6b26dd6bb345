#!/usr/bin/env bash
# python-tree.sh DIR: the Python tree that import-replay.txt was traced from (449 MB, 13,116 files and directories),
# byte-compiled. Does nothing when DIR holds it already. Needs CPython 3.11 or newer; downloads from PyPI.
set -euo pipefail

die() { printf 'python-tree: %s\n' "$*" >&2; exit 1; }

dir=${1:?usage: python-tree.sh DIR}
[[ ! -e $dir/.complete ]] || exit 0
command -v python3 >/dev/null || die "needs python3 (apt-get install python3 python3-venv)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "needs python3 3.11 or newer, found $(python3 -V)"

# Built under another name, so that an interrupted build is never taken for a tree.
partial=$dir.partial
venv=$dir.venv
trap 'rm -rf -- "$partial" "$venv"' EXIT
rm -rf -- "$partial" "$venv"
mkdir -p -- "$(dirname -- "$dir")"

# Debian's python3 has no pip; a virtual environment brings one of its own.
python=python3
if ! python3 -m pip --version >/dev/null 2>&1; then
  python3 -m venv "$venv" >/dev/null || die "needs pip or venv (apt-get install python3-venv)"
  python=$venv/bin/python3
fi

echo "python-tree: downloading numpy, scipy, pandas, scikit-learn and matplotlib into $dir (450 MB, once)"
"$python" -m pip install --quiet --no-warn-conflicts --disable-pip-version-check --target "$partial" \
  numpy==2.4.6 scipy==1.17.1 pandas==3.1.1 scikit-learn==1.9.1 matplotlib==3.11.2
# Some packages carry test files that are not meant to compile; that is not an error of ours.
python3 -m compileall -q "$partial" >/dev/null || true
touch "$partial/.complete"
rm -rf -- "$dir"
mv -- "$partial" "$dir"
