"""`backing-reads`: how large the reads of the backing file system are, and how many stats come with them, by `status --json` and by strace."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

from . import bars as say
from .files import MIB, make_samples, make_weights, permutation, read_once
from .job import Job, grown
from .programs import reader, start_at_once

NODES = 2
READ_BYTES = 1 << 20
STATS_PER_MIB = 1
READ_CALLS = ["pread64", "preadv", "preadv2", "read", "readv", "io_uring_enter"]
STAT_CALLS = ["statx", "newfstatat", "fstat", "stat", "lstat"]
CALLS = ["openat", "openat2", *READ_CALLS, *STAT_CALLS]
ATTACHED_WITHIN_S = 20


def run(given, bars):
    say.title(f"backing-reads: {NODES} nodes over the local file system, in brackets node 0 by strace")
    source = given.directory / "set"
    names = make_weights(source, 2, 100 * MIB)
    one_case(given, bars, "2 files of 100 MiB in order, every node all", source, lambda job: in_order(job, source, names))
    names = make_samples(source, 128, 2 * MIB)
    one_case(given, bars, "128 files of 2 MiB, shuffled, each at one node", source, lambda job: shuffled(job, source, names))
    shutil.rmtree(source)


def in_order(job, source, names):
    start_at_once([reader("map", [job.view(rank, source) / name for name in names]) for rank in range(NODES)])


def shuffled(job, source, names):
    for index, name in enumerate(permutation(names, 1)):
        read_once(job.view(index % NODES, source) / name)


def one_case(given, bars, text, source, work):
    job = Job(given.forebay, given.directory, "reads")
    with job.up("--local", NODES, "--export", source, "--budget", "512MiB"):
        with traced(next(node["pid"] for node in job.nodes() if node["rank"] == 0)) as calls:
            # After strace has begun: its counts are of the same time.
            before = job.nodes()
            work(job)
            after = job.nodes()
        counts = grown(job.backing_of(before), job.backing_of(after))
        of_one = grown(*(job.backing_of([node for node in nodes if node["rank"] == 0]) for nodes in [before, after]))
    proof = f"node 0: {of_one['reads']} reads, {of_one['stats']} stats, {of_one['opens']} opens by status"
    if calls:
        proof += f", by strace {sum(calls.get(name, 0) for name in READ_CALLS[:3])} pread, "
        proof += f"{sum(calls.get(name, 0) for name in STAT_CALLS)} stat, {calls.get('openat', 0) + calls.get('openat2', 0)} open"
    counted = f"{counts['bytes'] / MIB:.0f} MiB in {counts['reads']} reads, {counts['stats']} stats, {counts['opens']} opens; {proof}"
    bars.at_least(f"{text}: MiB a read", counts["bytes"] / max(counts["reads"], 1) / READ_BYTES, 1, note=counted)
    bars.at_most(f"{text}: stats a MiB", counts["stats"] / (counts["bytes"] / MIB), STATS_PER_MIB)


@contextlib.contextmanager
def traced(pid):
    """Counts of a process' system calls while the block runs, filled in at its end; none without strace."""
    calls = {}
    if not shutil.which("strace"):
        yield calls
        return
    with tempfile.NamedTemporaryFile("r") as summary:
        words = ["strace", "-f", "-c", "-U", "calls,name", "-e", "trace=" + ",".join(CALLS), "-o", summary.name, "-p", str(pid)]
        tracer = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        ended = time.monotonic() + ATTACHED_WITHIN_S
        while not all_traced(pid, tracer.pid) and time.monotonic() < ended and tracer.poll() is None:
            time.sleep(0.01)
        try:
            yield calls
        finally:
            if tracer.poll() is None:
                tracer.send_signal(signal.SIGINT)
            tracer.wait()
        for line in summary:
            match line.split():
                case [count, name] if count.isdigit() and name != "total":
                    calls[name] = int(count)


def all_traced(pid, tracer):
    with contextlib.suppress(FileNotFoundError):
        threads = os.listdir(f"/proc/{pid}/task")
        return all(f"TracerPid:\t{tracer}\n" in open(f"/proc/{pid}/task/{thread}/status").read() for thread in threads)
    return False
