"""Seconds of SQL over TPC-H as Parquet. Called by bench-sql.sh:
sql-times.py FOREBAY FOREBAY_SQL PLAIN DATA DIRECTORY [--links] [--runs N] [--json FILE]; DATA has a directory for each node, 0 on, with
one for each table.

First, on this host, each of the 22 statements by Forebay, by the same engine as it comes (PLAIN, built with the same crates) and by
DuckDB where Python has it: whole processes, in turns, medians. Forebay and the engine take a budget alike: as much as it wants, all fits.
Then with --links, as root, five nodes of the test bed, each with an equal share of this machine's processors (a control group of version 1)
and a link of 1 Gbit/s. Four hold a part of each table on their own disk; the fifth reads all over GlusterFS, over its own link and the
server's, or has the four compute. Nothing of the tables is in its memory; in theirs there may be.
"""

import argparse
import importlib.util
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

spec = importlib.util.spec_from_file_location("devices", Path(__file__).with_name("query-devices.py"))
query_devices = importlib.util.module_from_spec(spec)
spec.loader.exec_module(query_devices)
said, PERIOD_US = query_devices.said, query_devices.PERIOD_US

TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]
QUERIES, LINKED = range(1, 23), [1, 3, 5, 6, 18]
LINK, NODES = "1gbit", 4
SLOWER, FASTER = 1.05, 2.5
# Of this machine's processors for the nodes together; GlusterFS has the rest.
SHARE = 0.75
STATEMENTS = Path(__file__).with_name("tpch")
BY_DUCKDB = """
import sys, duckdb
connection = duckdb.connect()
for table in sys.argv[3:]:
    connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{sys.argv[1]}/*/{table}/*.parquet')")
for row in connection.execute(open(sys.argv[2]).read()).fetchall():
    print(*row, sep=",")
"""


def statement(query):
    return STATEMENTS / f"q{query}.sql"


def tables(data):
    return [word for table in TABLES for word in ("--table", f"{table}={data}/*/{table}/*.parquet")]


def timed(argv, **options):
    """Wall and CPU seconds of a process, and lines of its output."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, check=True, **options)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout.count(b"\n")


def contenders(given, query):
    ours = [given.forebay, "query", statement(query).read_text(), *tables(given.data), "--where", "host", "--format", "csv"]
    found = {"forebay": ours, "plain": [given.plain, given.data, statement(query), *TABLES]}
    if importlib.util.find_spec("duckdb"):
        found["duckdb"] = [sys.executable, "-c", BY_DUCKDB, given.data, statement(query), *TABLES]
    return found


def on_this_host(given):
    for query in QUERIES:
        took = {}
        for _ in range(given.runs):
            for name, argv in contenders(given, query).items():
                took.setdefault(name, []).append(timed(argv))
        assert took["forebay"][0][2] == took["plain"][0][2], f"q{query}: {took}"
        row = {name: [statistics.median(run[at] for run in runs) for at in (0, 1)] for name, runs in took.items()}
        print(f"q{query:<3}" + "".join(f"  {name} {wall:6.2f} s ({cpu:.2f} CPU s)" for name, (wall, cpu) in row.items()), flush=True)
        yield {"query": query, **row}


class Tables(query_devices.Bed):
    """Four nodes with a part of each table; node 0 holds none and asks."""

    def __init__(self, forebay, work):
        super().__init__(forebay, work, NODES, (), LINK)
        self.host_group = query_devices.CPU_GROUPS / f"forebay-query-{os.getpid()}-0"

    def prepare(self, data):
        self.groups.append(self.host_group)
        for group in self.groups:
            group.mkdir(exist_ok=True)
            quota = int(os.cpu_count() * SHARE / (NODES + 1) * PERIOD_US)
            for name, value in [("cpu.cfs_period_us", PERIOD_US), ("cpu.cfs_quota_us", quota), ("cpu.shares", query_devices.WEIGHT)]:
                (group / name).write_text(str(value))
        for node in range(1, NODES + 1):
            own = self.state / "srv/0/brick" / str(node)
            said(["cp", "-r", Path(data) / str(node - 1), own])
            place = self.data / str(node)
            place.mkdir()
            said(self.on(node, ["umount", self.data]))
            said(self.on(node, ["mount", "--bind", own, place]))

    def seconds(self, query, place):
        self.testbed("remount", "n0")
        words = [self.forebay, "query", "--job", "query", statement(query).resolve(), *tables(self.data), "--where", place, "--format", "csv"]
        script = f'mount --bind {self.state}/pfs {self.data} && echo $$ > {self.host_group}/cgroup.procs && f=$4 && s=$(cat "$f") && ' \
                 'forebay=$1 && shift 4 && exec "$forebay" query --job query "$s" "$@"'
        argv = self.on(0, ["unshare", "--mount", "sh", "-c", script, "sh", *words[:1], *words[2:]])
        return timed(argv, env=self.environment, cwd="/")


def over_links(given):
    work = Path(given.directory).resolve() / f"links-{os.getpid()}"
    work.mkdir(mode=0o700)
    os.environ["FOREBAY_SQL"] = given.forebay_sql
    with Tables(given.forebay, work) as bed:
        bed.prepare(given.data)
        bed.up(NODES)
        bed.testbed("rate", LINK)
        for query in LINKED:
            took = {"host": [], "data": []}
            for place in ["host", "data"] * given.runs:
                took[place].append(bed.seconds(query, place))
            assert len({run[2] for runs in took.values() for run in runs}) == 1, f"q{query}: {took}"
            host, data = (statistics.median(run[0] for run in took[place]) for place in ["host", "data"])
            print(f"q{query:<3}  by one host {host:6.2f} s  by {NODES} nodes {data:6.2f} s  {host / data:.2f} x", flush=True)
            yield {"query": query, "host_s": host, "data_s": data}
        bed.down()


def main(given):
    bars = []
    here = list(on_this_host(given)) if not given.only_links else []
    if here:
        ratios = {row["query"]: row["forebay"][0] / row["plain"][0] for row in here}
        worst = max(ratios, key=ratios.get)
        total = {name: sum(row[name][0] for row in here) for name in here[0] if name != "query"}
        print("all 22: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in total.items()))
        bars.append((f"of the engine as it comes at most {SLOWER} x: at worst {ratios[worst]:.2f} x, q{worst}", ratios[worst] <= SLOWER))
        bars.append((f"all 22 together: {total['forebay'] / total['plain']:.2f} x", total["forebay"] <= SLOWER * total["plain"]))
    links = list(over_links(given)) if given.links or given.only_links else []
    for row in links:
        times = row["host_s"] / row["data_s"]
        bars.append((f"q{row['query']}, {NODES} nodes at {LINK}: {times:.2f} x of one host, at least {FASTER} x", times >= FASTER))
    for text, is_met in bars:
        print(f"{text}: {'met' if is_met else 'NOT MET'}")
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
    if given.json:
        said_of = [{"bar": text, "met": met} for text, met in bars]
        Path(given.json).write_text(json.dumps({"here": here, "links": links, "bars": said_of}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["forebay", "forebay_sql", "plain", "data", "directory"]:
        parser.add_argument(name)
    parser.add_argument("--links", action="store_true", help="over links, too")
    parser.add_argument("--only-links", action="store_true", help="over links alone")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", help="a file for all that was measured")
    # Nothing stays behind, whichever way it is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench-sql: ended by SIGTERM"))
    main(parser.parse_args())
