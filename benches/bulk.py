#!/usr/bin/env python3
"""bulk.py FOREBAY DIR [PART...]: reads of model weights and of training data, each figure with its bar (all parts by default).

weights        the weights of a model to eight nodes over GlusterFS, beside other ways (root)
slow-home      the weights to all nodes but one, whose link is slow (root)
epochs         what epochs read from the backing file system again, by the size of the set
killed         the same while a node is killed
second         the same by a second job, from the nodes' disks
first-epoch    seconds of the first epoch over GlusterFS (root)
backing-reads  sizes of reads of the backing file system, and stats
dlio           UNet3D and ResNet50 of DLIO, scaled (--dlio-python)

Works in DIR (GlusterFS and copies in memory, in /dev/shm), and leaves nothing there. Exit status: 0 every bar is met, 3 some are not, 1 a
measurement failed.
"""

import argparse
import os
import pathlib
import shutil
import signal
import sys

from bulk import backing_reads, dlio, epochs, first_epoch, slow_home, weights
from bulk.bars import Bars

PARTS = {
    "backing-reads": backing_reads.run,
    "epochs": epochs.run,
    "killed": epochs.killed,
    "second": epochs.second,
    "first-epoch": first_epoch.run,
    "weights": weights.run,
    "slow-home": slow_home.run,
    "dlio": dlio.run,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    for part in [epochs, first_epoch, weights, slow_home, dlio]:
        part.options(parser)
    given = parser.parse_intermixed_args()
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]}; parts are {', '.join(PARTS)}")
    given.forebay, given.benches, given.pid = given.forebay.resolve(), pathlib.Path(__file__).resolve().parent, os.getpid()
    given.directory = given.directory.resolve() / f"bulk-{given.pid}"
    given.memory = pathlib.Path(f"/dev/shm/forebay-bulk-{given.pid}.files")
    given.directory.mkdir(parents=True, mode=0o700)
    given.memory.mkdir(mode=0o700)
    # What runs is ended, and what was made is removed, then too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    bars = Bars()
    try:
        for part in given.parts or PARTS:
            PARTS[part](given, bars)
    finally:
        shutil.rmtree(given.directory, ignore_errors=True)
        shutil.rmtree(given.memory, ignore_errors=True)
    sys.exit(bars.end())


if __name__ == "__main__":
    main()
