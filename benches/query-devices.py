"""Queries on emulated devices: who should answer, who does, and how eight devices compare with one. Called by bench-query.sh, as root:
query-devices.py FOREBAY DIRECTORY [--quick] [--json FILE]

A device is a network and mount namespace of the test bed with 15 % of a core (control group, version 1) and the files on its own
disk; the host sees the same files over GlusterFS, whose server's link has the rate that is measured. A cell is operator, size, link,
number of devices, and programs that keep the host's processors busy. Each cell is the median of three runs, with --quick one run; in
each run the choice comes first, so that it profits from no run of the same cell but the one before.
"""

import argparse
import importlib.util
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

TESTBED = Path("crates/harness/testkit/testbed/pfs-testbed.sh").resolve()
CPU_GROUPS = Path("/sys/fs/cgroup/cpu")
DEVICES = 8
SHARE_US, PERIOD_US = 15_000, 100_000
# So that other programs of the machine take nothing of a device's share.
WEIGHT = 16_384
ALL = "count-lines,stats,gramian,digits,entropy"
OPERATORS = ["count-lines", "entropy", "stats", "gramian"]
SIZES_MB = [16, 100]
LARGE_MB = 500
LINKS = ["100mbit", "1gbit", "10gbit"]
BUSY = [0, 2]
# Sides that differ by less are as good as each other.
DIFFERENCE = 0.15
RIGHT, REGRET, SPEEDUP = 0.95, 0.25, 6
RUNS = 3
# Programs that keep processors busy end by themselves if this one is killed.
BUSY_S = 900


def said(argv, **options):
    done = subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"bench-query: {argv} failed: {done.stderr}")
    return done.stdout


class Bed:
    def __init__(self, forebay, work, devices=DEVICES, sizes_mb=(*SIZES_MB, LARGE_MB), client_rate="none"):
        self.client_rate = client_rate
        self.forebay, self.work, self.devices, self.sizes_mb = forebay, work, devices, sizes_mb
        self.state = Path(f"/dev/shm/forebay-query-{os.getpid()}")
        self.data = work / "data"
        self.prefix = f"fq{os.getpid() % 100000}-"
        self.groups = [CPU_GROUPS / f"forebay-query-{os.getpid()}-{device}" for device in range(1, devices + 1)]
        self.environment = {
            **os.environ, "PFS_STATE": str(self.state), "PFS_PREFIX": self.prefix,
            "XDG_RUNTIME_DIR": str(work / "run"), "FOREBAY_PROFILE": "off",
        }

    def testbed(self, *words):
        return said([TESTBED, *words], env=self.environment, stdin=subprocess.DEVNULL)

    def on(self, node, argv):
        return ["nsenter", f"--net=/run/netns/{self.prefix}n{node}", f"--mount={self.state}/ns/n{node}.mnt",
                f"--uts={self.state}/ns/n{node}.uts", "--", *argv]

    def __enter__(self):
        for name in ["run", "view", "data", "export"]:
            (self.work / name).mkdir(mode=0o700)
        try:
            self.testbed("up", "-n", self.devices + 1, "-r", "none", "-R", self.client_rate, "-p", "none")
            brick = self.state / "srv/0/brick"
            spec = importlib.util.spec_from_file_location("compare", Path(__file__).with_name("query-compare.py"))
            compare = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(compare)
            for megabytes in self.sizes_mb:
                compare.make(brick / f"{megabytes}.csv", megabytes)
            for device, group in enumerate(self.groups, 1):
                said(self.on(device, ["mount", "--bind", brick, self.data]))
                group.mkdir()
                for name, value in [("cpu.cfs_period_us", PERIOD_US), ("cpu.cfs_quota_us", SHARE_US), ("cpu.shares", WEIGHT)]:
                    (group / name).write_text(str(value))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run([str(TESTBED), "down"], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for group in self.groups:
            for _ in range(100):
                try:
                    if group.exists():
                        group.rmdir()
                    break
                except OSError:
                    # The last of its processes is on its way out.
                    time.sleep(0.1)
        shutil.rmtree(self.work, ignore_errors=True)

    def up(self, devices):
        hosts = self.work / "hosts"
        hosts.write_text("".join(f"n{node}\n" for node in range(devices + 1)))
        said([self.forebay, "up", "--job", "query", "--export", self.work / "export", "--hostfile", hosts, "--interface", "eth0",
              "--remote-shell", f"{TESTBED} exec", "--view", self.work / "view", "--role", "device", "--data", self.data],
             env=self.environment, stdin=subprocess.DEVNULL)
        for device in range(1, devices + 1):
            place = os.stat(f"/run/netns/{self.prefix}n{device}").st_ino
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    is_ours = os.stat(process / "ns/net").st_ino == place and (process / "comm").read_text() == "forebay\n"
                    if is_ours:
                        (self.groups[device - 1] / "cgroup.procs").write_text(process.name)
                except OSError:
                    continue

    def down(self):
        said([self.forebay, "down", "--job", "query"], env=self.environment)

    def query(self, operators, megabytes, place):
        """With nothing of the file in the host's memory. Its own daemon finds the directory empty: it is no device that holds it."""
        self.testbed("remount", "n0")
        words = f"mount --bind {self.state}/pfs {self.data} && exec {self.forebay} query --job query {operators} " \
                f"{self.data}/{megabytes}.csv --json --explain --where {place}"
        answer = json.loads(said(self.on(0, ["unshare", "--mount", "sh", "-c", words]), env=self.environment, cwd="/"))
        return {"where": answer["where"], **answer["predicted"]}


def cell(bed, operator, megabytes, runs):
    took, chosen = {"auto": [], "host": [], "data": []}, []
    for place in ["auto", "host", "data"] * runs:
        answer = bed.query(operator, megabytes, place)
        took[place].append(answer["took"])
        if place == "auto":
            chosen.append((answer["where"], answer["took"], answer["host"], answer["data"], answer["split"]))
    host, data, auto = (statistics.median(took[place]) for place in ["host", "data", "auto"])
    best, (where, _, *predicted) = min(host, data), sorted(chosen, key=lambda one: one[1])[runs // 2]
    is_right = auto <= best if where == "split" else where == ("host" if host < data else "data")
    return {"host_s": host, "data_s": data, "chosen": where, "took_s": auto, "differs": max(host, data) > best * (1 + DIFFERENCE),
            "right": is_right, "regret": auto / best - 1, "predicted_s": predicted, "all_s": took, "all_chosen": [one[0] for one in chosen]}


def cells(bed, devices, runs):
    for link, busy in itertools.product(LINKS, BUSY):
        bed.testbed("rate", link)
        hog = f"import time\nend = time.monotonic() + {BUSY_S}\nwhile time.monotonic() < end: pass"
        load = [subprocess.Popen([sys.executable, "-c", hog]) for _ in range(busy)]
        try:
            for operator, megabytes in itertools.product(OPERATORS, SIZES_MB):
                row = {"link": link, "busy": busy, "devices": devices, "operator": operator, "megabytes": megabytes}
                row.update(cell(bed, operator, megabytes, runs))
                said = "" if row["right"] or not row["differs"] else ", wrong"
                said += f", {row['regret']:.0%} over the better side" if row["regret"] > REGRET else ""
                print(f"  {link:8} {busy} busy {devices} devices {operator:12} {megabytes:4} MB: host {row['host_s']:7.3f} s, data "
                      f"{row['data_s']:7.3f} s, chosen {row['chosen']:5} {row['took_s']:7.3f} s{said}", flush=True)
                yield row
        finally:
            for program in load:
                program.kill()
                program.wait()


def main(forebay, directory, report, runs):
    work = Path(directory).resolve() / f"devices-{os.getpid()}"
    work.mkdir(mode=0o700)
    rows, took = [], {}
    with Bed(forebay, work) as bed:
        for devices in [1, DEVICES]:
            bed.up(devices)
            bed.testbed("rate", "1gbit")
            took[devices] = statistics.median(bed.query(ALL, LARGE_MB, "data")["took"] for _ in range(3))
            print(f"{ALL} over {LARGE_MB} MB by {devices} devices: {took[devices]:.2f} s", flush=True)
            rows.extend(cells(bed, devices, runs))
            bed.down()
    telling = [row for row in rows if row["differs"]]
    right = sum(row["right"] for row in telling) / max(len(telling), 1)
    worst = max(rows, key=lambda row: row["regret"])
    many = took[1] / took[DEVICES]
    print(f"{len(rows)} cells, medians of {runs} runs; load of the machine at the end: {os.getloadavg()[0]:.1f}")
    said_of = [
        (f"decided for the faster side in {right:.1%} of {len(telling)} cells, at least {RIGHT:.0%}", right >= RIGHT),
        (f"at worst {worst['regret']:.0%} over the better side, at most {REGRET:.0%}", worst["regret"] <= REGRET),
        (f"{DEVICES} devices against one: {many:.1f} x, at least {SPEEDUP} x", many >= SPEEDUP),
    ]
    for text, is_met in said_of:
        print(f"{text}: {'met' if is_met else 'NOT MET'}")
    if report:
        bars = [{"bar": text, "met": met} for text, met in said_of]
        Path(report).write_text(json.dumps({"cells": rows, "all_s": took, "bars": bars}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay")
    parser.add_argument("directory")
    parser.add_argument("--quick", action="store_true", help="each cell once")
    parser.add_argument("--json", help="a file for all that was measured")
    given = parser.parse_args()
    # Nothing stays behind, whichever way it is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench-query: ended by SIGTERM"))
    main(given.forebay, given.directory, given.json, 1 if given.quick else RUNS)
