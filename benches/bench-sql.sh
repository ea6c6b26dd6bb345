#!/usr/bin/env bash
# bench-sql.sh: `make bench-sql`. TPC-H (SCALE_FACTOR, default 1) as Parquet, on NODES (default 4) nodes, each a device with a part of every table:
# whether the rows are those of one host and, at scale factor 1, the published ones, and how many bytes come to the host. Then, with four
# nodes, seconds (sql-times.py): on this host beside the same engine as it comes, and as root over links of 1 Gbit/s (RUNS of each, 3).
set -euo pipefail
NAME=bench-sql
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

need python3:python3
build_release forebay
say 'building forebay-sql (release)'
cargo build --release --quiet --locked --manifest-path crates/sql/Cargo.toml --target-dir "$SQL_TARGET_DIR" --bins --examples
out=${BENCH_DIR:-target/bench}
mkdir -p -- "$out"
work=$(realpath -- "$(mktemp -d -- "$out/sql.XXXXXX")")
forebay=$(realpath -- "$(release_dir)/forebay")
built=$(realpath -- "$SQL_TARGET_DIR/release")
tpch=$built/examples/tpch
nodes=${NODES:-4} scale=${SCALE_FACTOR:-1}
export FOREBAY_SQL=$built/forebay-sql FOREBAY_DIRECTORY=$work/jobs FOREBAY_JOB=bench-sql
end() {
  "$forebay" down >/dev/null 2>&1 || true
  rm -rf -- "$work"
}
trap end EXIT
mkdir -m 700 "$work/jobs"
mkdir "$work/export"
tables=()
for table in $("$tpch" tables); do
  say "table $table"
  for part in $(seq "$nodes"); do
    "$tpch" csv "$table" "$scale" "$part" "$nodes" >"$work/part.csv"
    [ "$(head -n 2 "$work/part.csv" | wc -l)" = 2 ] || continue
    mkdir -p "$work/data/$((part - 1))/$table"
    "$FOREBAY_SQL" "$("$tpch" typed "$table")" --table "t=$work/part.csv" --no-newlines --format parquet \
      --output "$work/data/$((part - 1))/$table/part.parquet"
  done
  tables+=(--table "$table=$work/data/*/$table/*.parquet")
done
rm "$work/part.csv"
"$forebay" up --local "$nodes" --export "$work/export" --role device --data "$work/data" >/dev/null
for query in $(seq 22); do
  say "q$query"
  "$tpch" answer "$query" >"$work/q$query.answer"
  for place in host data; do
    "$forebay" query "$(<"benches/tpch/q$query.sql")" "${tables[@]}" --where "$place" --explain \
      --format csv >"$work/q$query.$place.csv" 2>"$work/q$query.$place.said" || say "q$query, --where $place: failed"
  done
done
python3 benches/tpch/judge.py "$work" "$scale" "$nodes" "$out/sql.json"
"$forebay" down >/dev/null
if [ "$nodes" = 4 ]; then
  links=()
  if ((EUID == 0)) && [[ -c /dev/fuse && -d /sys/fs/cgroup/cpu ]]; then
    need glusterfs-server:glusterfsd glusterfs-client:glusterfs iproute2:ip
    links=(--links)
  else
    say 'links are emulated with namespaces, GlusterFS and control groups of version 1, by root: left out'
  fi
  python3 benches/sql-times.py "$forebay" "$FOREBAY_SQL" "$built/examples/plain" "$work/data" "$work" "${links[@]}" --runs "${RUNS:-3}" \
    --json "$out/sql-times.json"
fi
