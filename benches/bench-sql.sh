#!/usr/bin/env bash
# bench-sql.sh: `make bench-sql`. TPC-H's Q1 and Q6 over its table lineitem (SCALE_FACTOR, default 1) as Parquet, on 4 nodes, each
# a device with a quarter of it: whether the rows are those of one host, and how many bytes moved. Processors are this machine's
# and the program is not optimised: the figures are bytes, not seconds.
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
export FOREBAY_SQL=$SQL_TARGET_DIR/debug/forebay-sql FOREBAY_DIRECTORY=$work/jobs FOREBAY_JOB=bench-sql
end() {
  "$forebay" down >/dev/null 2>&1 || true
  rm -rf -- "$work"
}
trap end EXIT
mkdir -m 700 "$work/jobs"
mkdir "$work/export"
for rank in 0 1 2 3; do
  say "part $((rank + 1)) of 4 of lineitem"
  mkdir -p "$work/data/$rank"
  "$SQL_TARGET_DIR/debug/examples/lineitem" "${SCALE_FACTOR:-1}" "$((rank + 1))" 4 >"$work/part.csv"
  "$FOREBAY_SQL" "$(<benches/tpch/typed.sql)" --table "lineitem=$work/part.csv" --no-newlines --format parquet \
    --output "$work/data/$rank/lineitem.parquet"
done
rm "$work/part.csv"
"$forebay" up --local 4 --export "$work/export" --role device --data "$work/data" >/dev/null
for query in q1 q6; do
  for place in host data; do
    say "$query, --where $place"
    "$forebay" query "$(<"benches/tpch/$query.sql")" --table "lineitem=$work/data" --where "$place" --explain \
      --format csv >"$work/$query.$place.csv" 2>"$work/$query.$place.said"
  done
done
python3 - "$work" "$out/sql.json" <<'PYTHON'
import json, pathlib, re, sys
work, out = pathlib.Path(sys.argv[1]), sys.argv[2]
table = sum(file.stat().st_size for file in work.glob("data/*/lineitem.parquet"))
results = {"table_bytes": table}
print(f"lineitem: {table} bytes of Parquet")
for query in ["q1", "q6"]:
    said = (work / f"{query}.data.said").read_text()
    plans, answers = map(int, re.search(r"moved: (\d+) bytes of plans, (\d+) bytes of answers", said).groups())
    read = int(re.search(r"read here: (\d+) bytes", said).group(1))
    nodes = re.findall(r"made by (node \d+|this host)", said)
    same = (work / f"{query}.host.csv").read_bytes() == (work / f"{query}.data.csv").read_bytes()
    moved = plans + answers + read
    met = moved <= table / 100 and same and nodes == [f"node {rank}" for rank in range(4)]
    results[query] = {"plans": plans, "answers": answers, "read_by_host": read, "same_rows": same, "met": met}
    print(f"{query}: {plans} bytes of plans, {answers} of answers, {read} read by the host (its program's libraries among them): "
          f"{100 * moved / table:.3f} % of the table; rows as on one host: {'yes' if same else 'NO'}; "
          f"bar, 1 %: {'met' if met else 'not met'}")
pathlib.Path(out).write_text(json.dumps(results, indent=1) + "\n")
PYTHON
