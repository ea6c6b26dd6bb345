"""`forebay query describe` beside DuckDB's SUMMARIZE and polars' describe: CPU seconds in pairs, and how far quantiles are off.

Files are those of query-kinds.py, in the page cache, and one of 2,000,000 rows with normal, exponential and whole numbers, texts and
identifiers. A pair is one run of `forebay` and one of the other, by turns; the ratio is the median of the pairs. Quantiles are compared with
the exact ones of NumPy. All three have count, missing, mean, deviation, least, greatest and quartiles of each column; forebay and DuckDB
estimate how many values differ, polars does not. Only forebay has skewness, kurtosis and frequent values.
Called by bench-query.sh: query-describe.py FOREBAY DIRECTORY [--pairs N] [--megabytes N] [--json FILE]
"""

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import time

kinds = importlib.import_module("query-kinds")

SHARES = (0.25, 0.5, 0.75)


def make(path, kind, megabytes):
    if kind != "mixed":
        kinds.make(path, kind, megabytes)
        return
    import numpy as np

    rng, rows = np.random.default_rng(7), 2_000_000
    columns = [
        rng.normal(size=rows), rng.exponential(5, rows), rng.integers(0, 1000, rows), rng.integers(0, 10**9, rows),
    ]
    words = rng.choice(["north", "south", "east", "west"], rows)
    with open(path, "w") as file:
        file.write("normal,exponential,whole,large,site,name\n")
        for at, row in enumerate(zip(*(column.tolist() for column in columns), words.tolist(), strict=True)):
            file.write(f"{row[0]!r},{row[1]!r},{row[2]},{row[3]},{row[4]},id{at}\n")


def run(name, binary, path, kind):
    separator, header = " " if kind == "savetxt" else ",", kind == "mixed"
    if name == "forebay":
        done = subprocess.run([binary, "query", "describe", path, "--json"], check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)["described"]
    if name == "duckdb":
        import duckdb

        duckdb.connect().execute(f"SUMMARIZE SELECT * FROM read_csv('{path}', header={header}, delim='{separator}')").fetchall()
    else:
        import polars as pl

        pl.scan_csv(path, has_header=header, separator=separator).describe()
    return []


def timed(name, given, path, kind):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, __file__, "--as", name, "--kind", kind, given.forebay, path], check=True, stdout=subprocess.PIPE
    )
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, json.loads(done.stdout)


def errors(path, kind, described):
    """Of the columns of numbers, by how much of themselves quartiles are off at most, and what the answer says of that."""
    import numpy as np
    import polars as pl

    table = pl.read_csv(path, has_header=kind == "mixed", separator=" " if kind == "savetxt" else ",")
    off = said = 0.0
    for at, column in enumerate(described):
        if column["kind"] != "number":
            continue
        exact = np.quantile(table[:, at].to_numpy(), SHARES)
        found = [quantile["value"] for quantile in column["quantiles"]]
        off = max(off, *(abs(a - b) / abs(b) for a, b in zip(found, exact, strict=True) if b))
        said = max(said, column["quantile_error"])
    assert off <= said + 1e-12, f"{kind}: off by {off}, {said} was said"
    return off, said


def main(given):
    rows = []
    for kind in ("%.4f", "repr", "log", "mixed"):
        path = os.path.join(given.directory, "kind.csv")
        make(path, kind, given.megabytes)
        for name in ("duckdb", "polars"):
            pairs = [(timed("forebay", given, path, kind), timed(name, given, path, kind)) for _ in range(given.pairs)]
            rows.append(kinds.measured(kind, name, path, pairs))
        off, said = errors(path, kind, pairs[-1][0][2])
        rows.append({"kind": kind, "quartiles_off_by": off, "said": said})
        print(f"{kind:8} quartiles are off by {off:.3%} at most; {said:.3%} is said", flush=True)
        os.remove(path)
    if given.json:
        with open(given.json, "w") as file:
            json.dump({"rows": rows}, file, indent=1)


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
        print(json.dumps(run(given.name, given.forebay, given.directory, given.kind)))
    else:
        main(given)
