#!/usr/bin/env bash
# dlio-setup.sh DIR: DLIO as PyPI has it, in a virtual environment, once (1.5 GB). PyTorch is the system's: that of PyPI brings several GB of
# libraries for GPUs. DLIO asks for packages for GPUs too, which no part of it here imports: so its requirements are named one by one.
set -euo pipefail

die() { printf 'dlio-setup: %s\n' "$*" >&2; exit 1; }

dir=${1:?usage: dlio-setup.sh DIR}
[[ ! -e $dir/.complete ]] || exit 0
# PyTorch of the system belongs to the system's Python.
python=/usr/bin/python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "needs python3 3.11 or newer, found $("$python" -V)"
echo "dlio-setup: installing DLIO and TensorFlow into $dir (1.5 GB, once)"
rm -rf -- "$dir"
"$python" -m venv --system-site-packages "$dir"
pip=("$dir/bin/pip" install --quiet --disable-pip-version-check)
# NumPy 1: PyTorch of Debian 12 is built against it.
"${pip[@]}" --ignore-installed numpy==1.26.4 tensorflow-cpu==2.19.1 mpi4py==4.1.2 h5py pandas Pillow psutil hydra-core omegaconf PyYAML typing_extensions
"${pip[@]}" --no-deps dlio-benchmark==2.0.0 pydftracer==1.0.2
touch "$dir/.complete"
