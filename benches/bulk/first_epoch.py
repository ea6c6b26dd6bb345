"""`first-epoch`: the first epoch over a backing file system that is slower than the nodes: seconds against its bytes over the link's rate, with and
without announcements of what comes next.

Every node reads its part of a permutation, in as many threads as a training's loader has workers.
"""

import shutil
import sys

from . import bars as say
from .bed import Bed
from .files import MIB, make_samples, need_room, permutation
from .job import Job
from .programs import reader, start_at_once

NODES = 4
WORKERS = 4
LINK_MBIT = 1000
TIME_PART, ANNOUNCED_PART = 1.5, 1.2
BESIDE_MIB = 64


def options(parser):
    parser.add_argument("--first-mib", type=int, default=2048, help="size of the set of first-epoch")


def run(given, bars):
    count = given.first_mib // given.file_mib
    say.title(f"first-epoch: {count} files of {given.file_mib} MiB, {NODES} nodes of {WORKERS} threads, link of {LINK_MBIT} Mbit/s, 2 ms a request at the server")
    need_room(given.memory, count * given.file_mib * MIB)
    source = given.directory / "set"
    names = make_samples(source, count, given.file_mib * MIB)
    order = permutation(names, 0)
    ideal = count * given.file_mib * MIB / (LINK_MBIT * 1e6 / 8)
    with Bed(NODES, f"{LINK_MBIT}mbit") as bed:
        export = bed.fill(source, "set")
        shutil.rmtree(source)
        bed.slow_down()
        bed.remount()
        direct = start_at_once([bed.on(rank, *read(order, rank, export)) for rank in range(NODES)])[0]
        for told, part, options in [("without", TIME_PART, []), ("with", ANNOUNCED_PART, ["--announce"])]:
            bed.remount()
            seconds, counts = epoch(given, bed, export, order, options)
            bars.at_most(f"{told} announcements, against bytes over the link's rate", seconds / ideal, part, " x",
                         f"{seconds:.2f} s, {ideal:.2f} s at the link's rate; from GlusterFS itself {direct:.2f} s; {counts['reads']} reads, {counts['stats']} stats")


def epoch(given, bed, export, order, options):
    """Seconds of an epoch by a new job, and its counts at the backing file system."""
    job = Job(given.forebay, given.directory, "first", bed.variables)
    budget = len(order) * given.file_mib // NODES + BESIDE_MIB
    with job.up("--export", export, "--budget", f"{budget}MiB", *bed.up_options(given.directory / "hosts")):
        view = job.view(0, export, is_local=False)
        seconds, texts = start_at_once([bed.on(rank, *read(order, rank, view, options)) for rank in range(NODES)])
        counts = job.backing()
    if sum(text["bytes"] for text in texts) != len(order) * given.file_mib * MIB:
        sys.exit("the nodes have not read the whole set")
    return seconds, counts


def read(order, rank, directory, options=()):
    return reader("whole", [directory / name for name in order[rank::NODES]], "--workers", WORKERS, *options)
