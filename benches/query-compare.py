"""All operations of `forebay query` on a log of numbers, beside pandas with NumPy and polars: CPU seconds and wall seconds.

Every contender answers for itself, in a process of its own, over the same file, which is in the page cache: lines, count, sum,
mean, deviation of each column, Gramian, digits, entropy, and the moments of a normalised column. Answers must agree.
Called by bench-query.sh: query-compare.py FOREBAY DIRECTORY MEGABYTES... [--json FILE]
"""

import json
import os
import resource
import subprocess
import sys
import time

COLUMNS = 8


def make(path, megabytes):
    """A log of rows of eight numbers, some 70 bytes each: 4 MB of rows, repeated."""
    state, rows = 12345, []
    while len(rows) < 58_000:
        fields = []
        for _ in range(COLUMNS):
            state = (state * 1664525 + 1013904223) % 2**32
            fields.append(f"{state >> 22}.{(state >> 8) % 10000:04}")
        rows.append(",".join(fields) + "\n")
    text = "".join(rows).encode()
    with open(path, "wb") as file:
        written = 0
        while written < megabytes * 1_000_000:
            written += file.write(text)


def pandas_numpy(path):
    import numpy
    import pandas

    raw = numpy.fromfile(path, dtype=numpy.uint8)
    counts = numpy.bincount(raw, minlength=256)
    table = pandas.read_csv(path, header=None)
    values = table.to_numpy()
    column = values[:, 0]
    normalised = (column - column.mean()) / column.std()
    return answer(counts, numpy, values.sum(0), values.mean(0), values.std(0), values.T @ values, len(values), normalised)


def polars(path):
    import numpy
    import polars as pl

    table = pl.read_csv(path, has_header=False)
    values = table.to_numpy()
    column = values[:, 0]
    normalised = (column - column.mean()) / column.std()
    # Bytes are none of its business.
    return answer(None, numpy, values.sum(0), values.mean(0), values.std(0), values.T @ values, len(values), normalised)


def answer(counts, numpy, sums, means, deviations, gramian, rows, normalised):
    said = {
        "rows": rows,
        "sums": [float(x) for x in sums],
        "means": [float(x) for x in means],
        "deviations": [float(x) for x in deviations],
        "gramian": [[float(x) for x in row] for row in gramian],
        "normalised": [float(normalised.mean()), float(normalised.std())],
    }
    if counts is not None:
        shares = counts[counts > 0] / counts.sum()
        said["lines"] = int(counts[10])
        said["digits"] = [int(x) for x in counts[48:58]]
        said["entropy"] = float(-(shares * numpy.log2(shares)).sum())
    return said


def forebay(binary, path):
    operators = "count-lines,stats,gramian,digits,entropy"
    command = [binary, "query", operators, path, "--json", "--where", "host"]
    said = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {
        "rows": said["rows"],
        "sums": [column["sum"] for column in said["columns"]],
        "means": [column["mean"] for column in said["columns"]],
        "deviations": [column["deviation"] for column in said["columns"]],
        "gramian": said["gramian"],
        "lines": said["lines"],
        "digits": said["digits"],
        "entropy": said["entropy_bits_per_byte"],
    }


def timed(arguments):
    """CPU seconds, wall seconds and the answer of this program with other arguments."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, json.loads(done.stdout)


def agree(name, ours, theirs):
    for key, wanted in theirs.items():
        if key in ours:
            flat = lambda value: sum(map(flat, value), []) if isinstance(value, list) else [value]
            for a, b in zip(flat(ours[key]), flat(wanted), strict=True):
                assert abs(a - b) <= 1e-9 * max(abs(a), abs(b)), f"{name}: {key}: {a} and {b}"


def bars(rows):
    """The bars for 1 GB: CPU seconds of all operations but normalise's writing."""
    rows = {row["contender"]: row for row in rows}
    ours = rows["forebay"]["cpu_s"]
    print(f"{'met' if ours <= 2.2 else 'MISSED'}: {ours:.2f} CPU s, at most 2.2")
    for name, bar in (("pandas_numpy", 10), ("polars", 3)):
        times = rows[name]["times_forebay"]
        print(f"{'met' if times >= bar else 'MISSED'}: {times:.1f} times less than {name}, at least {bar}")


def main(binary, directory, sizes, report):
    rows = []
    for megabytes in sizes:
        path = os.path.join(directory, f"{megabytes}.csv")
        make(path, megabytes)
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass
        results = {name: timed([name, binary, path]) for name in ("forebay", "pandas_numpy", "polars")}
        os.remove(path)
        ours = results["forebay"]
        for name, (cpu, wall, said) in results.items():
            agree(name, ours[2], said)
            row = {"megabytes": megabytes, "contender": name, "cpu_s": cpu, "wall_s": wall, "times_forebay": cpu / ours[0]}
            rows.append(row)
            print(f"{megabytes:5} MB  {name:13} {cpu:8.2f} CPU s {wall:8.2f} s {row['times_forebay']:6.1f} x", flush=True)
    if 1000 in sizes:
        bars([row for row in rows if row["megabytes"] == 1000])
    if report:
        with open(report, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    contenders = {"pandas_numpy": pandas_numpy, "polars": polars}
    if sys.argv[1] == "forebay":
        print(json.dumps(forebay(sys.argv[2], sys.argv[3])))
    elif sys.argv[1] in contenders:
        print(json.dumps(contenders[sys.argv[1]](sys.argv[3])))
    else:
        given = sys.argv[1:]
        report = given.pop(given.index("--json") + 1) if "--json" in given else None
        given = [word for word in given if word != "--json"]
        main(given[0], given[1], [int(size) for size in given[2:]], report)
