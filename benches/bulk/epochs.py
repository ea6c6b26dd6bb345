"""`epochs`, `killed` and `second`: bytes that epochs of training read from the backing file system, by the size of the set against what the
nodes keep.

In each epoch every file is read once, whole, in the order of a new permutation, by the nodes in turn, without what their kernels have of it.
Counts, not times. Sets have 0.5, 1, 1.2 and 2 times what the nodes keep: the bytes of chunks that they have after an epoch over twice their
memory, by `status --json`; with --cache-mib the capacity of their disks.
"""

import shutil
import sys
import threading
import time

from . import bars as say
from .files import MIB, make_samples, permutation, read_once
from .job import Job

SIZES = [0.5, 1.0, 1.2, 2.0]
FITS_PART = 0.01
REST_PART = 1.1
SHARE_PART = 1.1
SECOND_PART = 0.01
NOTICED_WITHIN_S = 120
# Files that have changed later are in no cache store: --cache-after, and the grain of their times.
SETTLED_AFTER_S = 4


def options(parser):
    parser.add_argument("--nodes", type=numbers, default=[4, 16], help="of epochs, with commas; killed and second take the first")
    parser.add_argument("--budget-mib", type=int, default=96)
    parser.add_argument("--file-mib", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--cache-mib", type=int, help="of a node's disk, for chunks (--cache-store); none by default")
    parser.add_argument("--roots", type=int, help="nodes that read the backing file system, else what `up` chooses")


def numbers(text):
    return [int(word) for word in text.split(",")]


class Set:
    """A set of samples, and a job over it."""

    def __init__(self, given, nodes, whole, name):
        self.given, self.nodes, self.size_bytes = given, nodes, given.file_mib * MIB
        self.directory = given.directory / "set"
        self.store = given.directory / "store"
        self.files = make_samples(self.directory, max(1, int(whole) // self.size_bytes), self.size_bytes)
        self.whole, self.made = len(self.files) * self.size_bytes, time.time()
        self.job = Job(given.forebay, given.directory, name)

    def up(self, cache_mib=None):
        roots = ["--roots", self.given.roots] if self.given.roots else []
        if cache_mib:
            self.store.mkdir(exist_ok=True)
            time.sleep(max(0, self.made + SETTLED_AFTER_S - time.time()))
            roots += ["--cache-store", self.store, "--cache-capacity", f"{cache_mib}MiB", "--cache-after", "2s"]
        return self.job.up("--local", self.nodes, "--export", self.directory, "--budget", f"{self.given.budget_mib}MiB", *roots)

    def epoch(self, seed, ranks=None, progress=None):
        """Reads every file at one of the ranks; files that were not read whole, with the reason."""
        ranks = list(range(self.nodes)) if ranks is None else ranks
        order, failures = permutation(self.files, seed), []

        def of_rank(place, rank):
            for name in order[place :: len(ranks)]:
                try:
                    if read_once(self.job.view(rank, self.directory) / name) != self.size_bytes:
                        failures.append(f"{name} at node {rank} is short")
                except OSError as error:
                    failures.append(f"{name} at node {rank}: {error}")
                if progress:
                    progress()

        threads = [threading.Thread(target=of_rank, args=each) for each in enumerate(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return failures

    def remove(self):
        shutil.rmtree(self.directory)
        shutil.rmtree(self.store, ignore_errors=True)


def kept_bytes(given, nodes):
    """What the nodes keep of a set that is larger."""
    if given.cache_mib:
        return nodes * given.cache_mib * MIB
    data = Set(given, nodes, 2 * nodes * given.budget_mib * MIB, "room")
    with data.up():
        must_be_whole(data.epoch(0))
        kept = sum(node["cache"]["chunks"]["bytes"] for node in data.job.nodes())
    data.remove()
    return kept


def must_be_whole(failures):
    if failures:
        sys.exit(f"{len(failures)} files were not read whole, the first: {failures[0]}")


def run(given, bars):
    for nodes in given.nodes:
        roots = f"--roots {given.roots}" if given.roots else "no --roots"
        kept = kept_bytes(given, nodes)
        disk = f", {given.cache_mib} MiB of disk" if given.cache_mib else ""
        say.title(f"epochs: {nodes} nodes, {given.budget_mib} MiB of memory each{disk}, of which they keep {kept / nodes / MIB:.1f}; files of "
                  f"{given.file_mib} MiB, {roots}: of the set, read from the backing file system")
        for part in SIZES:
            of_size(given, bars, nodes, part, kept)


def of_size(given, bars, nodes, part, kept):
    data = Set(given, nodes, kept * part, "epochs")
    with data.up(given.cache_mib):
        read = [data.job.backing()["bytes"]]
        for number in range(given.epochs):
            must_be_whole(data.epoch(number))
            read.append(data.job.backing()["bytes"])
        shares = sorted(node["backing"]["bytes"] for node in data.job.nodes())
    parts = [(after - before) / data.whole for before, after in zip(read, read[1:])]
    bar = FITS_PART if part <= 1 else REST_PART * (part - 1) / part
    told = ", ".join(f"{each:.1%}" for each in parts)
    bars.at_most(f"{nodes} nodes, {part} x ({len(data.files)} files), worst of epochs >= 2", max(parts[1:]) * 100, bar * 100, " %", f"epochs: {told}; the busiest node read {shares[-1] / sum(shares) * nodes:.2f} x the mean")
    data.remove()


def killed(given, bars):
    """A node is killed while the others read epoch 2; its own reader has ended."""
    nodes, rank = given.nodes[0], given.nodes[0] - 1
    say.title(f"killed: {nodes} nodes, {given.budget_mib} MiB each; node {rank} is killed after a quarter of epoch 2")
    data = Set(given, nodes, nodes * given.budget_mib * MIB // 2, "killed")
    rest = [each for each in range(nodes) if each != rank]
    with data.up(given.cache_mib):
        must_be_whole(data.epoch(0))
        first = data.job.nodes()
        share = next(node["backing"]["bytes"] for node in first if node["rank"] == rank)
        before = [data.job.backing_of([node for node in first if node["rank"] != rank])["bytes"]]
        killer, failures = Killer(data, rank), []
        for number in [1, 2, 3]:
            failures += data.epoch(number, rest, killer.after_one)
            killer.join()
            before.append(data.job.backing_of([node for node in data.job.nodes() if node["rank"] != rank])["bytes"])
    again = [(after - old) / share for old, after in zip(before, before[1:])]
    bars.at_most("files that could not be read", len(failures), 0, note=failures[0] if failures else "")
    bars.at_most("epochs 2 and 3 read again, against the share of the lost node", sum(again[:2]), SHARE_PART, " x",
                 f"its share: {share / data.whole:.1%} of the set; epochs 2, 3, 4: {', '.join(f'{each:.2f}' for each in again)}")
    bars.at_most("epoch 4 reads again, of the set", again[2] * share / data.whole * 100, FITS_PART * 100, " %")
    data.remove()


class Killer:
    """Kills a node when a quarter of the files has been read, from a thread of its own: readers go on."""

    def __init__(self, data, rank):
        self.data, self.rank, self.left = data, rank, len(data.files) // 4
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=data.job.kill, args=[rank])

    def after_one(self):
        with self.lock:
            self.left -= 1
            if self.left == 0:
                self.thread.start()

    def join(self):
        self.thread.join(NOTICED_WITHIN_S)


def second(given, bars):
    """A second job on the same nodes, which keep chunks on their disks."""
    nodes = given.nodes[0]
    say.title(f"second: {nodes} nodes, a set of twice their memory on their disks (--cache-store), a second job after the first")
    data = Set(given, nodes, 2 * nodes * given.budget_mib * MIB, "second")
    if not data.job.has_option("--cache-store"):
        say.tell("not run: this build has no --cache-store")
        return data.remove()
    # Half as much again: homes have shares of unequal size.
    capacity_mib = data.whole * 3 // 2 // nodes // MIB
    read = []
    for number in range(2):
        with data.up(capacity_mib):
            for epoch in range(2):
                must_be_whole(data.epoch(2 * number + epoch))
                read.append(data.job.backing()["bytes"])
    used = sum(path.stat().st_blocks * 512 for path in data.store.rglob("*") if path.is_file())
    bars.at_most("first job's epoch 2 reads again, of the set", (read[1] - read[0]) / data.whole * 100, FITS_PART * 100, " %")
    bars.at_most("second job reads again, of the set", read[3] / data.whole * 100, SECOND_PART * 100, " %", f"its first epoch {read[2] / data.whole:.1%}")
    bars.at_most("on the disks after `down`, against their capacity", used / (capacity_mib * MIB * nodes), 1, " x")
    data.remove()
