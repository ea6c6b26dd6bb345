#!/usr/bin/env bash
# bench-query.sh: `make bench-query`. Sets up what is missing, then measures all operations of `forebay query` on one host beside
# pure Python, pandas with NumPy, polars, DataFusion, PySpark and C++, on logs of 100 MB to 2 GB (QUERY_MB), and says whether the
# bars for 1 GB are met; then, as root, the decision on emulated devices, and several files by all nodes (QUERY_DEVICES="--quick":
# one run of each cell, not three; QUERY_DEVICES=none: not at all). Then `stats` on the kinds of numbers that programs write, beside
# DuckDB and polars, and on five sets of public tables, which QUERY_SETS names (a directory with one of each set) or git fetches
# (QUERY_SETS=none: neither).
set -euo pipefail
NAME=bench-query
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

need python3:python3 python3-venv:pip g++:g++ default-jre-headless:java
build_release forebay
out=${BENCH_DIR:-target/bench}
mkdir -p -- "$out"
work=$(realpath -- "$(mktemp -d -- "$out/query.XXXXXX")")
trap 'rm -rf -- "$work"' EXIT
g++ -O2 -std=c++17 benches/query-plain.cpp -o "$work/plain"
g++ -O2 -std=c++17 -fopenmp benches/query-plain.cpp -o "$work/plain_openmp"
python3 -m venv "$work/venv" >/dev/null || die "needs venv (apt-get install python3-venv)"
pip=("$work/venv/bin/pip" install --quiet --disable-pip-version-check)
"${pip[@]}" numpy==2.4.6 pandas==3.1.1 polars==2.1.0 datafusion==55.0.0 duckdb==2.0.1
"${pip[@]}" pyspark==4.3.0 || say "pyspark cannot be installed; the table is without it"
# shellcheck disable=SC2086
"$work/venv/bin/python" benches/query-compare.py "$(realpath -- "$(release_dir)/forebay")" "$work" \
  ${QUERY_MB:-100 200 500 1000 2000} --json "$out/query.json"
"$work/venv/bin/python" benches/query-kinds.py "$(realpath -- "$(release_dir)/forebay")" "$work" --json "$out/query-kinds.json"
"$work/venv/bin/python" benches/query-describe.py "$(realpath -- "$(release_dir)/forebay")" "$work" --json "$out/query-describe.json"
sets=${QUERY_SETS:-$out/query-sets}
if [[ $sets == none ]]; then
  say "public tables are left out, as QUERY_SETS says"
else
  for set in vincentarelbundock/Rdatasets plotly/datasets fivethirtyeight/data mwaskom/seaborn-data HPI-Information-Systems/Pollock; do
    [[ -d $sets/${set#*/} ]] || git clone --quiet --depth 1 -- "https://github.com/$set" "$sets/${set#*/}" || say "$set cannot be fetched"
  done
  "$work/venv/bin/python" benches/query-sets.py "$(realpath -- "$(release_dir)/forebay")" "$sets"/* --json "$out/query-sets.json"
fi
if [[ ${QUERY_DEVICES:-} == none ]]; then
  say "devices are left out, as QUERY_DEVICES says"
elif ((EUID == 0)) && [[ -c /dev/fuse && -d /sys/fs/cgroup/cpu ]]; then
  need glusterfs-server:glusterfsd glusterfs-client:glusterfs iproute2:ip
  # shellcheck disable=SC2086
  python3 benches/query-devices.py "$(realpath -- "$(release_dir)/forebay")" "$work" ${QUERY_DEVICES:-} --json "$out/query-devices.json"
  # shellcheck disable=SC2086
  python3 benches/query-several.py "$(realpath -- "$(release_dir)/forebay")" "$work" ${QUERY_DEVICES:-} --json "$out/query-several.json"
else
  say "devices are emulated with namespaces, GlusterFS and control groups of version 1, by root: left out"
fi
