"""`forebay query stats` on sets of public tables as people have them, beside pandas and DuckDB.

Every file is answered by all three. An answer is the same as another's if both have numbers in the same columns, and of each the
same count, sum, least and greatest value. pandas is asked twice: as it is, and with the words that Forebay takes for missing, also with
blanks around them. A file counts if pandas or DuckDB have a numeric column in it. Called by bench-query.sh:
query-sets.py FOREBAY SET... [--json FILE] [--all]; a SET is a directory with .csv and .tsv files.
"""

import argparse
import collections
import json
import math
import os
import subprocess
import sys
import warnings

import duckdb
import pandas

BAR = 0.99
# Text that stands for a missing value (docs/query.md).
WORDS = """NA N/A n/a na #N/A #NA <NA> N.A. n.a. NULL null Null (null) \\N None none nil NaT - -- --- . .. ... ? * missing Missing MISSING
unknown Unknown UNKNOWN undefined 1.#IND -1.#IND 1.#QNAN -1.#QNAN #VALUE! #DIV/0! #REF! #NUM! #NAME? N/D n/d nd ND \u2013""".split()


def number(value):
    return math.nan if value is None else float(value)


def forebay(binary, path):
    """The numeric columns: name, count, sum, least, greatest; or the message."""
    done = subprocess.run([binary, "query", "stats", path, "--json", "--where", "host"], capture_output=True, text=True, timeout=120)
    if done.returncode:
        return done.stderr.strip().replace("\n", " ")
    said = json.loads(done.stdout)
    keys = ("count", "sum", "min", "max")
    return [(column["name"], *(number(column[key]) for key in keys)) for column in said["columns"]]


def by_pandas(path, words=None):
    options = {"low_memory": False, "na_values": words, "encoding_errors": "replace"}
    try:
        table = pandas.read_csv(path, sep="\t" if path.endswith(".tsv") else ",", **options)
        if table.shape[1] == 1:
            options.pop("low_memory")
            table = pandas.read_csv(path, sep=None, engine="python", **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    found = []
    for at, (name, kind) in enumerate(table.dtypes.items()):
        column = table.iloc[:, at].dropna()
        if words and not pandas.api.types.is_numeric_dtype(kind):
            # Blanks around a field and a field of blanks are none of the words.
            texts = column.astype(str).str.strip()
            texts = texts[(texts != "") & ~texts.isin(words)]
            numbers = pandas.to_numeric(texts, errors="coerce")
            if len(texts) and numbers.notna().all():
                column, kind = numbers, numbers.dtype
        if pandas.api.types.is_numeric_dtype(kind) and not pandas.api.types.is_bool_dtype(kind) and len(column):
            column = column.astype(float)
            found.append((str(name), len(column), column.sum(), column.min(), column.max()))
    return found


def by_duckdb(path):
    quoted = path.replace("'", "''")
    try:
        connection = duckdb.connect()
        connection.execute(f"CREATE TEMP TABLE t AS SELECT * FROM read_csv('{quoted}')")
        kinds = [row[:2] for row in connection.execute("DESCRIBE t").fetchall()]
        numeric = [name for name, kind in kinds if kind in ("BIGINT", "INTEGER", "DOUBLE", "HUGEINT", "FLOAT") or "DECIMAL" in kind]
        found = []
        for name in numeric:
            column = '"' + name.replace('"', '""') + '"'
            value = f"CASE WHEN isnan({column}::DOUBLE) THEN NULL ELSE {column}::DOUBLE END"
            row = connection.execute(f"SELECT count({value}), fsum({value}), min({value}), max({value}) FROM t").fetchone()
            if row[0]:
                found.append((name, *map(number, row)))
        return found
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def close(a, b, scale):
    return a == b or math.isnan(a) and math.isnan(b) or abs(a - b) <= 1e-9 * max(abs(a), abs(b), scale)


def same(ours, theirs):
    if isinstance(theirs, str) or len(ours) != len(theirs):
        return False
    for (_, *mine), (_, *other) in zip(ours, theirs, strict=True):
        scale = mine[0] * max(abs(mine[2]), abs(mine[3])) if mine[0] else 0
        if not all(close(a, b, scale if at == 1 else 0) for at, (a, b) in enumerate(zip(mine, other, strict=True))):
            return False
    return True


def judge(binary, path):
    """same, message or different; and why."""
    theirs = {"pandas": by_pandas(path), "duckdb": by_duckdb(path)}
    if not any(isinstance(found, list) and found for found in theirs.values()):
        return "no numbers", ""
    ours = forebay(binary, path)
    if isinstance(ours, str):
        return "message", ours
    theirs["pandas with words"] = by_pandas(path, WORDS)
    for name, found in theirs.items():
        if same(ours, found):
            return "same", name
    names = lambda found: found if isinstance(found, str) else [name for name, *_ in found]
    rows = lambda found: found if isinstance(found, str) else [int(column[1]) for column in found][:4]
    return "different", " | ".join(f"{name} {names(found)} {rows(found)}"[:150] for name, found in {"ours": ours, **theirs}.items())


def files_of(directory):
    for place, _, names in sorted(os.walk(directory)):
        yield from (os.path.join(place, name) for name in sorted(names) if name.lower().endswith((".csv", ".tsv")))


def main(given):
    warnings.simplefilter("ignore")
    report, is_met = [], True
    for directory in given.sets:
        counts = collections.Counter()
        for path in files_of(directory):
            kind, why = judge(given.forebay, path)
            counts[kind] += 1
            if kind == "different" or given.all and kind == "message":
                print(f"  {kind}: {path}: {why}", flush=True)
        files = sum(counts.values()) - counts["no numbers"]
        good = (counts["same"] + counts["message"]) / max(files, 1)
        is_met &= good >= BAR
        report.append({"set": os.path.basename(directory), "files": files, **counts, "good": good, "met": good >= BAR})
        print(
            f"{os.path.basename(directory)}: {files} files with numbers: {counts['same']} the same, {counts['message']} with a message, "
            f"{counts['different']} different; {good:.2%}, at least {BAR:.0%}: {'met' if good >= BAR else 'NOT MET'}",
            flush=True,
        )
    if given.json:
        with open(given.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("forebay")
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--json")
    parser.add_argument("--all", action="store_true", help="name files with a message, too")
    sys.exit(main(parser.parse_args()))
