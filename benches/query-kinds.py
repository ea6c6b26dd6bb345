"""`forebay query stats` beside DuckDB and polars on the kinds of numbers that people's files have: CPU seconds in pairs.

Each kind is one file of a few hundred megabytes in the page cache. The aggregates are those of `stats`: count, sum, mean, least,
greatest, variance and deviation of each numeric column. A pair is one run of `forebay` and one of the other, by turns; the ratio is
the median of the pairs. Answers must agree. Called by bench-query.sh:
query-kinds.py FOREBAY DIRECTORY [--pairs N] [--megabytes N] [--json FILE]
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time

# Bytes of different rows; the file repeats them.
ROWS_BYTES = 4_000_000
# CPU seconds of forebay, as a share of the faster of the others.
BARS = {"%.4f": 0.3, "repr": 0.5, "savetxt": 0.5, "log": 0.5}
WORDS = "GET POST PUT HEAD /index.html /data/part /status login worker reader INFO WARN ERROR node host queue".split()


def numbers(kind, rng):
    values = [rng.gauss(0, 1000) for _ in range(8)]
    shapes = {"%.4f": lambda x: f"{x:.4f}", "repr": repr, "savetxt": lambda x: f"{x:.18e}"}
    return (" " if kind == "savetxt" else ",").join(map(shapes[kind], values))


def log_row(rng):
    """Twelve columns, four of them numbers."""
    text = lambda: rng.choice(WORDS) + str(rng.randrange(1000))
    stamp = f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}T{rng.randrange(24):02}:{rng.randrange(60):02}:00Z"
    fields = [stamp, text(), text(), str(rng.randrange(65536)), text(), f"{rng.random() * 10:.3f}", text(), text()]
    return ",".join([*fields, str(rng.randrange(10**6)), text(), f"{rng.random():.6f}", text()])


def make(path, kind, megabytes):
    rng, rows, size = random.Random(7), [], 0
    while size < ROWS_BYTES:
        rows.append((log_row(rng) if kind == "log" else numbers(kind, rng)) + "\n")
        size += len(rows[-1])
    text = "".join(rows).encode()
    with open(path, "wb") as file:
        while file.tell() < megabytes * 1_000_000:
            file.write(text)


def columns_of(kind):
    return [3, 5, 8, 10] if kind == "log" else list(range(8))


def duckdb(path, kind):
    import duckdb

    names = [f"column{at:02}" if kind == "log" else f"column{at}" for at in columns_of(kind)]
    wanted = ", ".join(
        f"count({c}), sum({c}), avg({c}), min({c}), max({c}), var_pop({c}), stddev_pop({c})" for c in names
    )
    between = ", delim=' '" if kind == "savetxt" else ""
    row = duckdb.connect().execute(f"SELECT {wanted} FROM read_csv('{path}', header=false{between})").fetchone()
    return [[float(x) for x in row[at : at + 7]] for at in range(0, len(row), 7)]


def polars(path, kind):
    import polars as pl

    table = pl.scan_csv(path, has_header=False, separator=" " if kind == "savetxt" else ",")
    names, wanted = table.collect_schema().names(), []
    for at in columns_of(kind):
        c = pl.col(names[at])
        wanted += [c.count(), c.sum(), c.mean(), c.min(), c.max(), c.var(ddof=0), c.std(ddof=0)]
    row = table.select([expression.alias(str(at)) for at, expression in enumerate(wanted)]).collect().row(0)
    return [[float(x) for x in row[at : at + 7]] for at in range(0, len(row), 7)]


def forebay(binary, path):
    said = json.loads(subprocess.run([binary, "query", "stats", path, "--json"], check=True, stdout=subprocess.PIPE).stdout)
    keys = ("count", "sum", "mean", "min", "max", "variance", "deviation")
    return [[float(column[key]) for key in keys] for column in said["columns"]]


def timed(arguments):
    """CPU seconds and wall seconds of this program with other arguments, and its answer."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, json.loads(done.stdout)


def agree(kind, name, ours, theirs):
    assert len(ours) == len(theirs), f"{kind}: {name} has {len(theirs)} columns, forebay {len(ours)}"
    for mine, other in zip(ours, theirs, strict=True):
        # The others add up in plain doubles, so a sum near zero has few right digits.
        scale = mine[0] * max(abs(mine[3]), abs(mine[4]))
        for at, (a, b) in enumerate(zip(mine, other, strict=True)):
            assert abs(a - b) <= 1e-9 * max(abs(a), abs(b), scale if at == 1 else 0, scale / mine[0] if at == 2 else 0), (
                f"{kind}: {name}: {a} and {b}"
            )


def measured(kind, name, path, pairs):
    """The medians of some pairs, which are printed."""
    median = lambda of: statistics.median(map(of, pairs))
    row = {
        "kind": kind, "contender": name, "megabytes": os.path.getsize(path) / 1e6, "pairs": len(pairs),
        "forebay_cpu_s": median(lambda pair: pair[0][0]), "cpu_s": median(lambda pair: pair[1][0]),
        "forebay_wall_s": median(lambda pair: pair[0][1]), "wall_s": median(lambda pair: pair[1][1]),
        "ratio": median(lambda pair: pair[0][0] / pair[1][0]), "load": os.getloadavg()[0],
    }
    print(
        f"{kind:8} {row['megabytes']:5.0f} MB  forebay {row['forebay_cpu_s']:6.2f} CPU s ({row['forebay_wall_s']:.2f} s)"
        f"  {name:7} {row['cpu_s']:6.2f} CPU s ({row['wall_s']:.2f} s)  ratio {row['ratio']:.2f}  load {row['load']:.1f}",
        flush=True,
    )
    return row


def main(given):
    rows, said = [], []
    for kind, bar in BARS.items():
        path = os.path.join(given.directory, "kind.csv")
        make(path, kind, given.megabytes)
        for name in ("duckdb", "polars"):
            pairs = []
            for _ in range(given.pairs):
                ours = timed(["--as", "forebay", "--kind", kind, given.forebay, path])
                theirs = timed(["--as", name, "--kind", kind, given.forebay, path])
                agree(kind, name, ours[2], theirs[2])
                pairs.append((ours, theirs))
            row = measured(kind, name, path, pairs)
            rows.append(row)
            is_met = row["ratio"] <= bar
            said.append({"bar": f"{kind} against {name}: {row['ratio']:.2f}, at most {bar}", "met": is_met})
            print(f"  {said[-1]['bar']}: {'met' if is_met else 'NOT MET'}", flush=True)
        os.remove(path)
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"rows": rows, "bars": said}, file, indent=1)


def answer_as(given):
    if given.name == "forebay":
        return forebay(given.forebay, given.directory)
    return {"duckdb": duckdb, "polars": polars}[given.name](given.directory, given.kind)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("forebay")
    parser.add_argument("directory")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--json")
    parser.add_argument("--as", dest="name")
    parser.add_argument("--kind")
    given = parser.parse_args()
    if given.name:
        print(json.dumps(answer_as(given)))
    else:
        main(given)
