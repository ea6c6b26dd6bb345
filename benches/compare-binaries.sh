#!/usr/bin/env bash
# compare-binaries.sh ROUNDS NAME=BINARY...: what builds of one commit take for the same work, by turns: `query stats` over a CSV of 300 MB, and
# find and cat of 10,000 small files on a view. Prints for each the median of wall and processor seconds; the view's processor is the daemon's.
# Works in BENCH_DIR (default a directory in TMPDIR), and leaves nothing there.
set -euo pipefail
(($# >= 2)) || { echo 'usage: compare-binaries.sh ROUNDS NAME=BINARY...' >&2; exit 2; }
ROUNDS=$1
shift
made=$(mktemp -d -p "${BENCH_DIR:-${TMPDIR:-/tmp}}")
JOB=compare-$$ LAST=${1#*=}
trap '"$LAST" down --job "$JOB" >/dev/null 2>&1; rm -rf --one-file-system "$made"' EXIT
TICKS=$(getconf CLK_TCK)

python3 - "$made" <<'PYTHON'
import pathlib, random, sys
place = pathlib.Path(sys.argv[1])
random.seed(1)
rows = "".join(f"{random.random()},{random.uniform(0, 100):.2f},{random.gauss(3, 4)},{random.randrange(1000)},a{n % 7}\n" for n in range(100_000))
with open(place / "t.csv", "w") as table:
    table.write("a,b,c,d,name\n")
    while table.tell() < 300_000_000:
        table.write(rows)
for n in range(10_000):
    folder = place / "small" / f"{n // 100:03}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"f{n:05}.py").write_bytes(random.randbytes(700) * (n % 5 + 1))
PYTHON

(cd "$made/small" && find . -type f | sort) >"$made/list"
(cd "$made/small" && xargs cat) <"$made/list" >"$made/expected"

query() {
  local TIMEFORMAT='%R %U %S'
  { time "$1" query stats "$made/t.csv" --json >/dev/null 2>&1; } 2>&1 | awk '{ print $1, $2 + $3 }'
}

# walk BINARY
walk() {
  local view daemon begun
  "$1" up --local 1 --job "$JOB" --view "$made/view" --export "$made/small" --prefetch=false >/dev/null
  view=$made/view/0$made/small daemon=$(pgrep -f "kept $JOB/0")
  begun=$EPOCHREALTIME
  find "$view" -type f | wc -l | grep -qx 10000
  (cd "$view" && xargs cat) <"$made/list" | cmp - "$made/expected"
  awk -v begun="$begun" -v ended="$EPOCHREALTIME" -v ticks="$TICKS" '{ print ended - begun, ($14 + $15) / ticks }' "/proc/${daemon%%$'\n'*}/stat"
  "$1" down --job "$JOB" >/dev/null 2>&1
}

for ((round = 0; round < ROUNDS; round++)); do
  for pair; do
    query "${pair#*=}" >>"$made/query-${pair%%=*}"
    walk "${pair#*=}" >>"$made/walk-${pair%%=*}"
  done
done
for work in query walk; do
  for pair; do
    for column in 1 2; do
      cut -d' ' -f"$column" "$made/$work-${pair%%=*}" | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
    done | paste -sd' ' | awk -v work="$work" -v name="${pair%%=*}" '{ printf "%-6s %-12s wall %.2f s, processor %.2f s\n", work, name, $1, $2 }'
  done
done
