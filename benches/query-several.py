"""Queries of several files by all nodes. Called by bench-query.sh, as root:
query-several.py FOREBAY DIRECTORY [--quick] [--json FILE]

First, four files on four devices beside one file on one device, on the devices of query-devices.py: each has a file of its own. Then
16 nodes over one backing file system (GlusterFS), beside what its link and the nodes' processors allow. All nodes share this
machine's processors: each has a share of one, by a control group of version 1. GlusterFS has what it wants, in a group of its own,
before other programs of the machine. The rate of a node's processor is that of one node alone over a fast link. No node has read a
file before. Medians of three runs, with --quick one run.
"""

import argparse
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
from pathlib import Path

devices = importlib.util.spec_from_file_location("devices", Path(__file__).with_name("query-devices.py"))
query_devices = importlib.util.module_from_spec(devices)
devices.loader.exec_module(query_devices)
ALL, PERIOD_US, said = query_devices.ALL, query_devices.PERIOD_US, query_devices.said

FILES, NODES = 4, 16
FILE_MB = 100
TOGETHER, REACHED = 1.15, 0.8
RUNS = 3
# Of a core for each node, the link of the server, megabytes: once the link is the limit, once the processors are.
LINK_CELL, PROCESSOR_CELL = (0.1, "400mbit", 400), (0.04, "10gbit", 1000)
RATES = {"400mbit": 50e6, "10gbit": 1250e6}


class Devices(query_devices.Bed):
    """Four devices, each with a directory that no other has."""

    def __init__(self, forebay, work):
        super().__init__(forebay, work, FILES, ())
        self.brick = self.state / "srv/0/brick"

    def prepare(self, make):
        for device in range(1, FILES + 1):
            own = self.brick / str(device)
            own.mkdir()
            make(own / "log.csv", FILE_MB)
            place = self.data / str(device)
            place.mkdir(exist_ok=True)
            said(self.on(device, ["umount", self.data]))
            said(self.on(device, ["mount", "--bind", own, place]))

    def several(self, count, place):
        """Seconds of a query of the files of so many devices, with nothing of them in the host's memory."""
        self.testbed("remount", "n0")
        files = " ".join(f"{self.data}/{device}/log.csv" for device in range(1, count + 1))
        words = f"mount --bind {self.state}/pfs {self.data} && exec {self.forebay} query --job query {ALL} {files} --json --where {place}"
        return json.loads(said(self.on(0, ["unshare", "--mount", "sh", "-c", words]), env=self.environment, cwd="/"))


class Nodes(query_devices.Bed):
    """Nodes over one backing file system. The first is the host, which asks."""

    def group(self, node):
        return query_devices.CPU_GROUPS / f"forebay-nodes-{os.getpid()}-{node}"

    def __enter__(self):
        self.groups = [self.group(node) for node in [*range(NODES), "pfs"]]
        for name in ["run", "view"]:
            (self.work / name).mkdir(mode=0o700)
        try:
            self.testbed("up", "-n", NODES, "-r", "none", "-p", "none")
            for group in self.groups:
                group.mkdir()
                for name, value in [("cpu.cfs_period_us", PERIOD_US), ("cpu.shares", query_devices.WEIGHT)]:
                    (group / name).write_text(str(value))
            for mounted in Path("/proc").glob("[0-9]*/cmdline"):
                if str(self.state).encode() in mounted.read_bytes() and b"gluster" in mounted.read_bytes():
                    (self.group("pfs") / "cgroup.procs").write_text(mounted.parent.name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def up(self, nodes):
        hosts = self.work / "hosts"
        hosts.write_text("".join(f"n{node}\n" for node in range(nodes)))
        said([self.forebay, "up", "--job", "query", "--export", self.state / "pfs", "--hostfile", hosts, "--interface", "eth0",
              "--remote-shell", f"{query_devices.TESTBED} exec", "--view", self.work / "view"],
             env=self.environment, stdin=subprocess.DEVNULL)
        places = {os.stat(f"/run/netns/{self.prefix}n{node}").st_ino: node for node in range(nodes)}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                node = places.get(os.stat(process / "ns/net").st_ino)
                if node is not None and (process / "comm").read_text() == "forebay\n":
                    (self.group(node) / "cgroup.procs").write_text(process.name)
            except OSError:
                continue

    def share(self, cores):
        for group in self.groups[:NODES]:
            (group / "cpu.cfs_quota_us").write_text(str(int(cores * PERIOD_US)))

    def query(self, file):
        words = [self.forebay, "query", "--job", "query", ALL, file, "--json", "--where", "data"]
        return json.loads(said(self.on(0, words), env=self.environment, cwd="/"))

    def rate(self, make, nodes, megabytes, runs):
        """Bytes a second, medians, of files that no node has read before; and how many nodes made some."""
        rates, makers = [], []
        for run in range(runs):
            name = f"{nodes}-{megabytes}-{run}.csv"
            make(self.state / "srv/0/brick" / name, megabytes)
            answer = self.query(self.state / "pfs" / name)
            rates.append(answer["bytes"] / answer["seconds"])
            makers.append(len(answer["made_by"]))
            (self.state / "srv/0/brick" / name).unlink()
        return statistics.median(rates), statistics.median(makers)


def compare_make():
    spec = importlib.util.spec_from_file_location("compare", Path(__file__).with_name("query-compare.py"))
    compare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare)
    return compare.make


def on_devices(forebay, work, make, runs):
    with Devices(forebay, work) as bed:
        bed.prepare(make)
        bed.up(FILES)
        # One at which the host is slower than a device.
        bed.testbed("rate", "100mbit")
        for place in ["data", "auto"]:
            took = {count: [] for count in [1, FILES]}
            for count in [1, FILES] * runs:
                answer = bed.several(count, place)
                took[count].append(answer["seconds"])
            one, four = (statistics.median(took[count]) for count in [1, FILES])
            makers = len(answer.get("made_by", []))
            print(f"{place}: {FILE_MB} MB on one device {one:.2f} s, on each of {FILES} {four:.2f} s, made at {answer['where']} by {makers}",
                  flush=True)
            yield {"place": place, "one_s": one, "four_s": four, "all_s": took}
        bed.down()


def over_backing(forebay, work, make, runs):
    with Nodes(forebay, work) as bed:
        for share, link, megabytes in [LINK_CELL, PROCESSOR_CELL]:
            bed.testbed("rate", "none")
            bed.share(share)
            bed.up(1)
            alone, _ = bed.rate(make, 1, max(megabytes // NODES, 10), runs)
            bed.down()
            bed.up(NODES)
            bed.testbed("rate", link)
            together, makers = bed.rate(make, NODES, megabytes, runs)
            bed.down()
            allowed = min(RATES[link], NODES * alone)
            print(f"{NODES} nodes with {share:.0%} of a core each, link {link}: one alone {alone / 1e6:.1f} MB/s, together "
                  f"{together / 1e6:.1f} MB/s by {makers:.0f} nodes, allowed {allowed / 1e6:.1f} MB/s", flush=True)
            yield {"share": share, "link": link, "alone": alone, "together": together, "allowed": allowed, "makers": makers}


def main(forebay, directory, report, runs):
    make, work = compare_make(), Path(directory).resolve()
    places = [work / f"several-{kind}-{os.getpid()}" for kind in ["devices", "nodes"]]
    for place in places:
        place.mkdir(mode=0o700)
    several = list(on_devices(forebay, places[0], make, runs))
    backing = list(over_backing(forebay, places[1], make, runs))
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
    bars = []
    # Where the fastest end is asked for, this host helps one device more than four.
    for row in several[:1]:
        ratio = row["four_s"] / row["one_s"]
        bars.append((f"{FILES} files on {FILES} devices: {ratio:.2f} x of one, at most {TOGETHER} x", ratio <= TOGETHER))
    for row in backing:
        part = row["together"] / row["allowed"]
        bars.append((f"{NODES} nodes, link {row['link']}: {part:.2f} of what is allowed, at least {REACHED}", part >= REACHED))
    for text, is_met in bars:
        print(f"{text}: {'met' if is_met else 'NOT MET'}")
    if report:
        said_of = [{"bar": text, "met": met} for text, met in bars]
        Path(report).write_text(json.dumps({"devices": several, "nodes": backing, "bars": said_of}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay")
    parser.add_argument("directory")
    parser.add_argument("--quick", action="store_true", help="each once")
    parser.add_argument("--json", help="a file for all that was measured")
    given = parser.parse_args()
    # Nothing stays behind, whichever way it is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench-query: ended by SIGTERM"))
    main(given.forebay, given.directory, given.json, 1 if given.quick else RUNS)
