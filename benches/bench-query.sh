#!/usr/bin/env bash
# bench-query.sh: `make bench-query`. Sets up what is missing, then measures all operations of `forebay query` on one host beside
# pandas with NumPy and polars, on logs of 100 MB to 1 GB (QUERY_MB), and says whether the bars for 1 GB are met.
set -euo pipefail
NAME=bench-query
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

need python3:python3 python3-venv:pip
build_release forebay
out=${BENCH_DIR:-target/bench}
mkdir -p -- "$out"
work=$(mktemp -d -- "$out/query.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
python3 -m venv "$work/venv" >/dev/null || die "needs venv (apt-get install python3-venv)"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check numpy==2.4.6 pandas==3.1.1 polars==2.1.0
# shellcheck disable=SC2086
"$work/venv/bin/python" benches/query-compare.py "$(realpath -- "$(release_dir)/forebay")" "$work" ${QUERY_MB:-100 200 500 1000} \
  --json "$out/query.json"
