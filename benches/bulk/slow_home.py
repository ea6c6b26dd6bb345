"""`slow-home`: all nodes but one read the weights, while that one's link carries a twentieth of what the others' carry.

It is home of a share of all files, so readers that wait for it go at its speed.
"""

import shutil
import sys

from . import bars as say
from .bed import Bed
from .files import MIB, make_weights, need_room, whole_bytes
from .job import Job
from .programs import reader, start_at_once

FILES = 4
SLOW_NODE = 1
SLOWER = 20
BESIDE_MIB = 128


def options(parser):
    parser.add_argument("--slow-home-mib", type=int, default=1024)
    parser.add_argument("--slow-home-nodes", type=int, default=8)


def run(given, bars):
    nodes, whole = given.slow_home_nodes, given.slow_home_mib * MIB
    say.title(
        f"slow-home: {given.slow_home_mib} MiB in {FILES} files by mmap; {nodes} nodes, links of {given.node_mbit} Mbit/s, that of node {SLOW_NODE} "
        f"{given.node_mbit // SLOWER}, and {given.server_mbit} of the server; the others read"
    )
    need_room(given.memory, whole)
    source = given.directory / "weights"
    names = make_weights(source, FILES, whole // FILES)
    bytes_ = whole_bytes(source / name for name in names)
    with Bed(nodes, f"{given.server_mbit}mbit", f"{given.node_mbit}mbit") as bed:
        export = bed.fill(source, "weights")
        bed.slow_down()
        alike, read = seconds(given, bed, export, names, bytes_)
        say.tell(f"all links alike: the last of the others has all in {alike:.2f} s; {read:.2f} x read from the file system")
        bed.shape(SLOW_NODE, f"{given.node_mbit // SLOWER}mbit")
        slow, read = seconds(given, bed, export, names, bytes_)
        say.tell(f"one link slow: {slow:.2f} s, {slow / alike:.2f} x; {read:.2f} x read from the file system")
    shutil.rmtree(source)


def seconds(given, bed, export, names, whole):
    bed.remount()
    job = Job(given.forebay, given.directory, "slow-home", bed.variables)
    budget = whole // MIB // bed.count * 2 + BESIDE_MIB
    with job.up("--export", export, "--budget", f"{budget}MiB", "--deadline", "120s", *bed.up_options(given.directory / "hosts")):
        view = job.view(0, export, is_local=False)
        readers = [bed.on(node, *reader("map", [view / name for name in names])) for node in range(bed.count) if node != SLOW_NODE]
        took, texts = start_at_once(readers)
        if any(text["bytes"] != whole for text in texts):
            sys.exit("a node has read fewer bytes than the weights have")
        read = sum(node["backing"]["bytes"] for node in job.nodes() if "backing" in node)
        for node in job.nodes():
            if node.get("slow"):
                say.tell(f"node {node['rank']} finds slow: {node['slow']}")
    return took, read / whole
