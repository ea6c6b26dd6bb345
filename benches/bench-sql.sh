#!/usr/bin/env bash
# bench-sql.sh: `make bench-sql`. TPC-H (SCALE_FACTOR, default 1) as Parquet, on NODES (default 4) nodes, each a device with a part of every table:
# whether the rows are those of one host and, at scale factor 1, the published ones, and how many bytes come to the host. Processors are this
# machine's and the program is not optimised: the figures are bytes, not seconds.
set -euo pipefail
NAME=bench-sql
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
. benches/setup.sh

need python3:python3
say 'building forebay and forebay-sql (dev)'
cargo build --quiet --package forebay
cargo test --quiet --locked --no-run --manifest-path crates/sql/Cargo.toml --target-dir "$SQL_TARGET_DIR"
out=${BENCH_DIR:-target/bench}
mkdir -p -- "$out"
work=$(realpath -- "$(mktemp -d -- "$out/sql.XXXXXX")")
forebay=$(realpath -- "${CARGO_TARGET_DIR:-target}/debug/forebay")
tpch=$(realpath -- "$SQL_TARGET_DIR/debug/examples/tpch")
nodes=${NODES:-4} scale=${SCALE_FACTOR:-1}
export FOREBAY_SQL=$SQL_TARGET_DIR/debug/forebay-sql FOREBAY_DIRECTORY=$work/jobs FOREBAY_JOB=bench-sql
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
