"""All operations of `forebay query` on a log of numbers, beside other ways to compute them: CPU seconds and wall seconds.

Every contender answers for itself, in a process of its own, over the same file, which is in the page cache: lines, count, sum,
mean, deviation of each column, Gramian, digits, entropy, and the moments of a normalised column. polars, DataFusion and Spark leave
out what they have no operation for: bytes. Answers must agree. Called by bench-query.sh:
query-compare.py FOREBAY DIRECTORY MEGABYTES... [--json FILE]; without pyspark or java in reach Spark is left out, and said to be.
"""

import importlib.util
import itertools
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import time

COLUMNS = 8
# Pure Python takes a minute of a processor for as much.
PYTHON_MB_MAX = 100
# All values of the file in memory several times over.
MEMORY_MB_MAX = {"pandas_numpy": 2000, "spark": 1000}


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


def python(path):
    """As one writes it without a library, in one pass and a second one for the deviations."""
    counts, sums, rows = [0] * 256, [0.0] * COLUMNS, []
    gramian = [[0.0] * COLUMNS for _ in range(COLUMNS)]
    with open(path, "rb") as file:
        for line in file:
            for byte in line:
                counts[byte] += 1
            row = [float(field) for field in line.split(b",")]
            rows.append(row)
            for left in range(COLUMNS):
                sums[left] += row[left]
                for right in range(COLUMNS):
                    gramian[left][right] += row[left] * row[right]
    means = [x / len(rows) for x in sums]
    deviations = [math.sqrt(sum((row[at] - means[at]) ** 2 for row in rows) / len(rows)) for at in range(COLUMNS)]
    normalised = [(row[0] - means[0]) / deviations[0] for row in rows]
    mean = sum(normalised) / len(rows)
    total = sum(counts)
    return {
        "rows": len(rows), "sums": sums, "means": means, "deviations": deviations, "gramian": gramian,
        "normalised": [mean, math.sqrt(sum((x - mean) ** 2 for x in normalised) / len(rows))],
        "lines": counts[10], "digits": counts[48:58],
        "entropy": -sum(count / total * math.log2(count / total) for count in counts if count),
    }


def aggregates(names):
    """Of SQL, with the key of each in the answer."""
    yield "rows", "count(*)"
    for name in names:
        yield "sums", f"sum({name})"
        yield "means", f"avg({name})"
        yield "deviations", f"stddev_pop({name})"
    for left, right in itertools.product(names, names):
        yield "gramian", f"sum({left} * {right})"


def by_sql(names, ask):
    """`ask` makes a row of aggregates."""
    wanted = list(aggregates(names))
    row = ask(", ".join(f"{expression} AS a{at}" for at, (_, expression) in enumerate(wanted)))
    of = lambda key: [float(value) for (this, _), value in zip(wanted, row, strict=True) if this == key]
    mean, deviation = of("means")[0], of("deviations")[0]
    scaled = f"(({names[0]} - {mean!r}) / {deviation!r})"
    normalised = ask(f"avg({scaled}) AS m, stddev_pop({scaled}) AS d")
    gramian = of("gramian")
    return {
        "rows": int(of("rows")[0]), "sums": of("sums"), "means": of("means"), "deviations": of("deviations"),
        "gramian": [gramian[at : at + COLUMNS] for at in range(0, len(gramian), COLUMNS)],
        "normalised": [float(x) for x in normalised],
    }


def datafusion(path):
    import datafusion as df

    context = df.SessionContext()
    context.register_csv("t", path, has_header=False)
    ask = lambda words: [column[0].as_py() for column in context.sql(f"SELECT {words} FROM t").collect()[0].columns]
    return by_sql([f"column_{at}" for at in range(1, COLUMNS + 1)], ask)


def spark(path):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
    session = builder.config("spark.log.level", "ERROR").getOrCreate()
    schema = ", ".join(f"c{at} DOUBLE" for at in range(COLUMNS))
    session.read.csv(path, schema=schema).createOrReplaceTempView("t")
    said = by_sql([f"c{at}" for at in range(COLUMNS)], lambda words: list(session.sql(f"SELECT {words} FROM t").collect()[0]))
    # The JVM is waited for by nobody, so its seconds are none of ours.
    machine = session.sparkContext._gateway.proc
    with open(f"/proc/{machine.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    said["more_cpu_s"] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    print(json.dumps(said), flush=True)
    machine.kill()
    os._exit(0)


def plain(program, path):
    return json.loads(subprocess.run([program, path], check=True, stdout=subprocess.PIPE).stdout)


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
    done = subprocess.run([sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = json.loads(done.stdout)
    return cpu + said.pop("more_cpu_s", 0.0), wall, said


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
    said = [(f"{ours:.2f} CPU s for 1 GB, at most 2.2", ours <= 2.2)]
    for name, bar in (("pandas_numpy", 10), ("polars", 3), ("spark", 100)):
        if name in rows:
            times = rows[name]["times_forebay"]
            said.append((f"{times:.1f} times less than {name}, at least {bar}", times >= bar))
        else:
            said.append((f"against {name}: not measured", False))
    for text, is_met in said:
        print(f"{text}: {'met' if is_met else 'NOT MET'}")
    return [{"bar": text, "met": is_met} for text, is_met in said]


def contenders(megabytes):
    names = ["forebay", "plain", "plain_openmp", "python", "pandas_numpy", "polars", "datafusion", "spark"]
    most = {**MEMORY_MB_MAX, "python": PYTHON_MB_MAX}
    is_there = {"spark": importlib.util.find_spec("pyspark") and shutil.which("java")}
    return [name for name in names if megabytes <= most.get(name, megabytes) and is_there.get(name, True)]


def main(binary, directory, sizes, report):
    rows, said = [], []
    for megabytes in sizes:
        path = os.path.join(directory, f"{megabytes}.csv")
        make(path, megabytes)
        ours = None
        for name in contenders(megabytes):
            with open(path, "rb") as file:
                while file.read(1 << 24):
                    pass
            cpu, wall, answered = timed([name, binary, path, directory])
            ours = ours or (cpu, answered)
            agree(name, ours[1], answered)
            row = {"megabytes": megabytes, "contender": name, "cpu_s": cpu, "wall_s": wall, "times_forebay": cpu / ours[0]}
            rows.append(row)
            print(f"{megabytes:5} MB  {name:13} {cpu:8.2f} CPU s {wall:8.2f} s {row['times_forebay']:6.1f} x", flush=True)
        os.remove(path)
    if "spark" not in contenders(0):
        print("spark: left out, no pyspark or no java")
    if 1000 in sizes:
        said = bars([row for row in rows if row["megabytes"] == 1000])
    if report:
        with open(report, "w") as file:
            json.dump({"rows": rows, "bars": said}, file, indent=1)


def answer_as(name, binary, path, directory):
    if name == "forebay":
        return forebay(binary, path)
    if name in ("plain", "plain_openmp"):
        return plain(os.path.join(directory, name), path)
    return {"pandas_numpy": pandas_numpy, "polars": polars, "python": python, "datafusion": datafusion, "spark": spark}[name](path)


if __name__ == "__main__":
    if sys.argv[1].startswith("/"):
        given = sys.argv[1:]
        report = given.pop(given.index("--json") + 1) if "--json" in given else None
        given = [word for word in given if word != "--json"]
        main(given[0], given[1], [int(size) for size in given[2:]], report)
    else:
        print(json.dumps(answer_as(*sys.argv[1:])))
