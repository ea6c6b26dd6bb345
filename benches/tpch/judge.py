"""The results of bench-sql.sh: `judge.py WORK SCALE_FACTOR NODES OUT`. A row is right if its numbers are, to the cent, in any order of rows."""

import csv
import json
import pathlib
import re
import sys

work, scale, nodes, out = pathlib.Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]


def value(text):
    """A field to compare: numbers as such, rounded as the published ones are."""
    try:
        return round(float(text), 2)
    except ValueError:
        return text.strip()


def near(one, other):
    """Whether two fields are alike: published averages are rounded otherwise."""
    numbers = isinstance(one, float) and isinstance(other, float)
    return abs(one - other) <= 0.0101 + 1e-9 * abs(one) if numbers else one == other


def alike(one, other):
    """Whether two results have the same rows, in any order."""
    one, other = (sorted(rows, key=lambda row: [str(field) for field in row if isinstance(field, str)] + [str(row)]) for rows in (one, other))
    return len(one) == len(other) and all(len(a) == len(b) and all(map(near, a, b)) for a, b in zip(one, other))


def rows(path, delimiter=","):
    with open(path, newline="") as file:
        # Published fields are padded; quotes in them are no quotes.
        reader = csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE if delimiter == "|" else csv.QUOTE_MINIMAL)
        return [[value(field) for field in row] for row in reader if row][1:]


results = {}
for query in range(1, 23):
    said = (work / f"q{query}.data.said").read_text()
    moved = re.findall(r"node (\d+): (\d+) bytes of files, (\d+) bytes sent to it, (\d+) bytes received from it", said)
    there, here = rows(work / f"q{query}.data.csv"), rows(work / f"q{query}.host.csv")
    published = alike(there, rows(work / f"q{query}.answer", "|")) if scale == 1 else None
    received = sum(int(node[3]) for node in moved)
    result = (work / f"q{query}.data.csv").stat().st_size
    read = re.search(r"read here: (\d+) bytes", said)
    met = len(moved) == nodes and "note:" not in said and received <= result + (1 << 20) and alike(there, here) and published is not False
    results[query] = {"result": result, "received": received, "sent": sum(int(node[2]) for node in moved), "as_host": alike(there, here),
                      "as_published": published, "read_by_host": int(read.group(1)) if read else None, "met": met}
    print(f"q{query}: {results[query]}")
print(f"{sum(result['met'] for result in results.values())} of 22 met")
pathlib.Path(out).write_text(json.dumps(results, indent=1) + "\n")
