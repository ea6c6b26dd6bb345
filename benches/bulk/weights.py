"""`weights`: eight nodes read all of a model's weights by mmap, in order, over GlusterFS behind shaped links.

Beside it: every node from GlusterFS itself, `cp` to every node, and a broadcast by MPI: as Open MPI chooses, which is from one node to all like
that of sbcast, and as a chain. Copies go to /dev/null, so that storing
them costs nothing. Every way starts with fresh mounts.
"""

import shutil
import statistics
import subprocess
import sys

from . import bars as say
from .bed import Bed
from .files import MIB, make_weights, need_room, whole_bytes
from .job import Job
from .programs import reader, start_at_once

FILES = 4
BACKING_PART = 1.01
TIME_PART = 1.15
WARM_PART = 0.9
WARM_RUNS = 5
# Of a budget, what a node needs beside chunks: listings, names, and pieces under way.
BESIDE_MIB = 128


def options(parser):
    parser.add_argument("--weights-mib", type=int, default=4096)
    parser.add_argument("--weights-nodes", type=int, default=8)
    parser.add_argument("--server-mbit", type=int, default=1000)
    parser.add_argument("--node-mbit", type=int, default=800)
    parser.add_argument("--ways", default="direct,cp,broadcast,chain", help="what is compared, or none")


def run(given, bars):
    nodes, whole = given.weights_nodes, given.weights_mib * MIB
    rate = min(given.server_mbit, given.node_mbit) * 1e6 / 8
    say.title(
        f"weights: {given.weights_mib} MiB in {FILES} files to {nodes} nodes by mmap; link of the server {given.server_mbit} Mbit/s, "
        f"of a node {given.node_mbit}; 2 ms a metadata request and a read at the server"
    )
    # The server's files, and a copy of one of them later.
    need_room(given.memory, whole + whole // FILES)
    source = given.directory / "weights"
    names = make_weights(source, FILES, whole // FILES)
    with Bed(nodes, f"{given.server_mbit}mbit", f"{given.node_mbit}mbit") as bed:
        export = bed.fill(source, "weights")
        bed.slow_down()
        case = Case(given, bed, [export / name for name in names], whole_bytes(source / name for name in names), rate)
        case.forebay(bars)
        others = [] if given.ways == "none" else given.ways.split(",")
        for way in others:
            bed.remount()
            case.told(way, getattr(case, way)())
    warm(given, bars, source, names)
    shutil.rmtree(source)


class Case:
    def __init__(self, given, bed, paths, whole, rate):
        self.given, self.bed, self.paths, self.whole, self.rate = given, bed, paths, whole, rate
        self.nodes = range(bed.count)

    def forebay(self, bars):
        self.bed.remount()
        job = Job(self.given.forebay, self.given.directory, "weights", self.bed.variables)
        budget = self.whole // MIB // self.bed.count + BESIDE_MIB
        exported = ["--export", self.paths[0].parent, "--budget", f"{budget}MiB", "--deadline", "120s"]
        before = self.bed.traffic()
        with job.up(*exported, *self.bed.up_options(self.given.directory / "hosts")):
            view = job.view(0, self.paths[0].parent, is_local=False)
            paths = [view / path.name for path in self.paths]
            seconds, texts = start_at_once([self.bed.on(node, *reader("map", paths)) for node in self.nodes])
            counts = [node["backing"] for node in job.nodes()]
            after = self.bed.traffic()
            self.compare_bytes(texts, paths)
        read, sent = sum(count["bytes"] for count in counts), after["sent_bytes"] - before["sent_bytes"]
        reads, stats = sum(count["reads"] for count in counts), sum(count["stats"] for count in counts)
        bars.at_most("bytes that the nodes read from the backing file system, against the weights", read / self.whole, BACKING_PART, " x",
                     f"most of a node {max(count['bytes'] for count in counts) / self.whole:.3f} x; {reads} reads, {stats} stats; "
                     f"the server sent {sent / self.whole:.3f} x, attributes and protocol included")
        ideal = self.whole / self.rate
        bars.at_most("last node has all, against bytes over the slower link", seconds / ideal, TIME_PART, " x",
                     f"{seconds:.2f} s, {ideal:.2f} s at {self.rate / 1e6:.0f} MB/s; first node {min(text['seconds'] for text in texts):.2f} s")

    def compare_bytes(self, texts, paths):
        if any(text["bytes"] != self.whole for text in texts):
            sys.exit("a node has read fewer bytes than the weights have")
        expected = start_at_once([reader("sum", [self.given.directory / "weights" / path.name for path in self.paths])])[1][0]
        found = start_at_once([self.bed.on(node, *reader("sum", paths)) for node in self.nodes])[1]
        if any(each["crc32"] != expected["crc32"] for each in found):
            sys.exit("a node has read other bytes than the weights have")

    def told(self, way, seconds):
        say.tell(f"{way}: last node has all in {seconds:.2f} s, {seconds * self.rate / self.whole:.2f} x bytes over the slower link")

    def direct(self):
        return start_at_once([self.bed.on(node, *reader("map", self.paths)) for node in self.nodes])[0]

    def cp(self):
        copy = 'read line; for file; do cp "$file" /dev/null || exit; done'
        return start_at_once([self.bed.on(node, "sh", "-c", copy, "sh", *self.paths) for node in self.nodes], is_json=False)[0]

    def chain(self):
        """The same where each node passes on what it gets, which is the best that MPI offers for this."""
        return self.broadcast(is_chain=True)

    def broadcast(self, is_chain=False):
        program, agent = self.given.directory / "broadcast", self.given.directory / "agent"
        source = self.given.benches / "bulk/broadcast.c"
        subprocess.run(["mpicc.openmpi", "-O2", "-o", program, source], check=True)
        # A node does not see the other nodes' mount namespaces: the agent goes by way of this process'.
        enter = f'nsenter --target {self.given.pid} --mount -- {self.bed.script} exec "$node" --'
        agent.write_text(f'node=$1; shift; exec {enter} sh -c "$*"\n')
        settings = {"plm_rsh_agent": f"sh {agent}", "btl": "self,tcp", "btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0", "mpi_yield_when_idle": "1"}
        if is_chain:
            settings |= {"coll_tuned_use_dynamic_rules": "1", "coll_tuned_bcast_algorithm": "3", "coll_tuned_bcast_algorithm_segmentsize": "131072"}
        words = ["mpirun.openmpi", "--allow-run-as-root", "--quiet", "-n", self.bed.count, "--map-by", "node"]
        words += ["--host", ",".join(f"n{node}:1" for node in self.nodes)]
        words += [word for name, value in settings.items() for word in ["--mca", name, value]]
        done = subprocess.run(self.bed.on(0, *words, program, *self.paths), capture_output=True, text=True, env=self.bed.environment())
        if done.returncode != 0:
            sys.exit(f"broadcast: {done.returncode}\n{done.stdout}{done.stderr}")
        return say.json_of(done.stdout)["seconds"]


def warm(given, bars, source, names):
    """Reading by mmap again on one node, in turn with the same from tmpfs."""
    in_memory = given.memory / "weights"
    in_memory.mkdir(parents=True)
    # One file tells: all would need as much memory again.
    name = names[0]
    shutil.copy(source / name, in_memory / name)
    job = Job(given.forebay, given.directory, "warm")
    ratios = []
    try:
        with job.up("--local", 1, "--export", source, "--budget", "256MiB"):
            shown = job.view(0, source) / name
            start_at_once([reader("map", [shown])])
            start_at_once([reader("map", [in_memory / name])])
            for run_number in range(WARM_RUNS):
                seconds = {}
                for path in [shown, in_memory / name][:: 1 if run_number % 2 == 0 else -1]:
                    seconds[path] = start_at_once([reader("map", [path])])[1][0]["seconds"]
                ratios.append(seconds[in_memory / name] / seconds[shown])
    finally:
        shutil.rmtree(in_memory)
    bars.at_least("mmap again, rate against tmpfs", statistics.median(ratios), WARM_PART, " x",
                  f"{min(ratios):.2f} to {max(ratios):.2f}, {WARM_RUNS} alternating pairs of {(source / name).stat().st_size // MIB} MiB")
