#!/usr/bin/env python3
"""import-builds.py TREE DIR NAME=BINARY...: the import storm by builds of Forebay, in turn.

All nodes replay the import (import-replay.py) over TREE (python-tree.sh) at the same time, cold, from a new job; with a recorded profile and
pack, and without. The nodes are `--local N` over the local file system; with --gluster they are in network namespaces, over GlusterFS behind a
link of 1 Gbit/s, 2 ms a metadata request, two at a time (root). Counts at the backing file system are by `forebay status --json`, summed over
the nodes, and in brackets the most of one node; over GlusterFS those of the server too. Then seconds from the start signal (with a profile
from the call of `up`, as prefill begins there) to the end of the slowest node: medians, and the median of the ratios of pairs. Works in DIR
(GlusterFS in memory), and leaves nothing there.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from bulk.bed import METADATA, Bed
from bulk.job import Job
from bulk.programs import start_at_once

REPLAY = pathlib.Path(__file__).resolve().parent / "import-replay.py"
COUNTS = ["opens", "stats", "reads", "listings", "bytes"]
SENT = ["requests_sent", "bytes_sent"]
PACK_SECONDS = 120
# It waits for a line, so that starting Python is in no node's time.
GATE = "import sys, runpy; sys.stdin.readline(); sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


class Place:
    """Where the nodes are: on this machine, or on the test bed."""

    def __init__(self, given, bed):
        self.given, self.bed = given, bed
        self.tree = given.tree.resolve() if bed is None else bed.fill(given.tree.resolve(), "tree")
        self.profiles = given.directory if bed is None else bed.files
        if bed is not None:
            bed.slow_down()

    def job(self, build):
        return Job(build.binary, self.given.directory, "storm", self.bed and self.bed.variables)

    def profile(self, build):
        return self.profiles / f"{build.name}.profile"

    def has_pack(self, build):
        pack = self.profile(build).with_suffix(".pack")
        return pack.exists() if self.bed is None else subprocess.run(self.bed.on(0, "test", "-e", pack)).returncode == 0

    def options(self, nodes):
        if self.bed is None:
            return ["--local", nodes]
        return self.bed.up_options(self.given.directory / "hosts", nodes)

    def replay(self, job, rank):
        words = [sys.executable, "-c", GATE, REPLAY, job.view(rank, self.tree, is_local=self.bed is None)]
        return words if self.bed is None else self.bed.on(rank, *words)

    def fresh(self):
        if self.bed is not None:
            self.bed.remount()

    def traffic(self):
        return {} if self.bed is None else self.bed.traffic()


class Build:
    def __init__(self, word):
        self.name, _, binary = word.partition("=")
        self.binary = str(pathlib.Path(binary).resolve())


def storm(place, build, nodes, has_profile):
    """One cold storm: seconds, the replays' processor time, counts of each node and of the server."""
    place.fresh()
    job, before, marks = place.job(build), place.traffic(), {}
    profile = place.profile(build) if has_profile else "off"
    commands = [place.replay(job, rank) for rank in range(nodes)]
    with contextlib.ExitStack() as stack:

        def begin():
            marks["up"] = time.perf_counter()
            stack.enter_context(job.up("--export", place.tree, *place.options(nodes), profile=profile))
            marks["all"] = time.perf_counter()

        seconds, replays = start_at_once(commands, before=begin)
        if has_profile:
            seconds += marks["all"] - marks["up"]
        after, all_nodes = place.traffic(), job.nodes()
        if has_profile and not place.has_pack(build):
            wait_for_pack(place, build)
    counts = {key: [node["backing"][key] for node in all_nodes] for key in COUNTS}
    counts |= {key: [node["overlay"][key] for node in all_nodes] for key in SENT}
    counts["kernel_messages"] = [sum(node["kernel"]["messages"].values()) for node in all_nodes]
    counts |= {f"server {kind}": [count - before.get(kind, 0)] for kind, count in after.items() if count > before.get(kind, 0)}
    return {"seconds": seconds, "replay_cpu": sum(each["cpu_seconds"] for each in replays), "counts": counts}


def wait_for_pack(place, build):
    ended = time.monotonic() + PACK_SECONDS
    while not place.has_pack(build):
        if time.monotonic() > ended:
            sys.exit(f"{build.name}: no pack within {PACK_SECONDS} s")
        time.sleep(0.1)


def shown(key, values):
    most = f" ({max(values):,})" if len(values) > 1 else ""
    if "bytes" in key:
        return f"{sum(values) / 1e6:.1f} MB" + (f" ({max(values) / 1e6:.1f})" if most else "")
    return f"{sum(values):,}{most}"


def tell_counts(builds, runs):
    keys = dict.fromkeys(key for build in builds for run in runs[build.name] for key in run["counts"])
    for key in keys:
        parts = []
        for build in builds:
            of_runs = sorted((run["counts"].get(key, [0]) for run in runs[build.name]), key=sum)
            middle, (least, most) = of_runs[len(of_runs) // 2], (sum(of_runs[0]), sum(of_runs[-1]))
            parts.append(f"{build.name} {shown(key, middle)}" + ("" if least == most else f" [{least:,} to {most:,}]"))
        print(f"  {key:17} {'; '.join(parts)}", flush=True)


def measure(place, builds, given, nodes, has_profile):
    print(f"\n{nodes} nodes, {'profile and pack' if has_profile else 'no profile'}; load {os.getloadavg()[0]:.1f}", flush=True)
    runs = {build.name: [] for build in builds}
    for number in range(given.pairs):
        for build in builds if number % 2 == 0 else builds[::-1]:
            runs[build.name].append(storm(place, build, nodes, has_profile))
    tell_counts(builds, runs)
    for build in builds:
        seconds = sorted(run["seconds"] for run in runs[build.name])
        cpu = statistics.median(run["replay_cpu"] for run in runs[build.name])
        print(f"  seconds           {build.name} {statistics.median(seconds):.2f} ({seconds[0]:.2f} to {seconds[-1]:.2f}); replays' processor time {cpu:.2f} s")
    for build in builds[1:]:
        ratios = sorted(b["seconds"] / a["seconds"] for a, b in zip(runs[builds[0].name], runs[build.name]))
        print(f"  {build.name} against {builds[0].name}, of {len(ratios)} pairs: {statistics.median(ratios):.3f} x ({ratios[0]:.3f} to {ratios[-1]:.3f}); "
              f"load {os.getloadavg()[0]:.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("builds", nargs="+", metavar="NAME=BINARY")
    parser.add_argument("--nodes", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--gluster", action="store_true")
    given = parser.parse_args()
    given.directory = given.directory.resolve() / f"import-builds-{os.getpid()}"
    given.directory.mkdir(parents=True, mode=0o700)
    builds = [Build(word) for word in given.builds]
    try:
        with contextlib.ExitStack() as stack:
            bed = stack.enter_context(Bed(max(given.nodes), "1gbit", at_once=2, delayed=METADATA)) if given.gluster else None
            place = Place(given, bed)
            for build in builds:
                storm(place, build, 1, True)
            for nodes in given.nodes:
                for has_profile in [False, True]:
                    measure(place, builds, given, nodes, has_profile)
    finally:
        shutil.rmtree(given.directory, ignore_errors=True)


if __name__ == "__main__":
    main()
