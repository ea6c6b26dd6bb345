#!/usr/bin/env python3
"""reader.py map|sum|whole PATH...: the program that the nodes run. It waits for a line, so that starting Python is in no figure.

`map` maps each file in order and copies it to memory in pieces, as a loader of weights does; `sum` makes a checksum so; `whole` reads each
file once from its beginning to its end in `--workers N` threads, as a training's loader does; with `--announce` what comes next is announced, as
forebay.torch.EpochSampler does. Prints a line of JSON.
"""

import argparse
import json
import mmap
import os
import pathlib
import sys
import threading
import time
import zlib

PIECE = 1 << 20
CLIENT = pathlib.Path(__file__).resolve().parents[2] / "python"
# As a loader of 4 workers with two batches of 16 samples each under way.
AHEAD = 128


def pieces(path):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
        for start in range(0, len(view), PIECE):
            with view[start : start + PIECE] as piece:
                yield piece


def copied(paths):
    buffer, total = bytearray(PIECE), 0
    for path in paths:
        for piece in pieces(path):
            buffer[: len(piece)] = piece
            total += len(piece)
    return {"bytes": total}


def summed(paths):
    checksum = total = 0
    for path in paths:
        for piece in pieces(path):
            checksum = zlib.crc32(piece, checksum)
            total += len(piece)
    return {"bytes": total, "crc32": checksum}


def whole(paths, workers, announces):
    total, begun, announcer = [0] * workers, 0, None
    if announces:
        sys.path.insert(0, str(CLIENT))
        from forebay._announce import Announcer

        announcer = Announcer(range(len(paths)), paths.__getitem__, AHEAD, None)

    def work(worker):
        nonlocal begun
        buffer = bytearray(PIECE)
        for path in paths[worker::workers]:
            if announcer:
                begun += 1
                announcer.asked(begun)
            descriptor = os.open(path, os.O_RDONLY)
            while count := os.readv(descriptor, [buffer]):
                total[worker] += count
            os.close(descriptor)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"bytes": sum(total)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=["map", "sum", "whole"])
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--announce", action="store_true")
    given = parser.parse_args()
    sys.stdin.readline()
    began = time.perf_counter()
    done = whole(given.paths, given.workers, given.announce) if given.way == "whole" else {"map": copied, "sum": summed}[given.way](given.paths)
    print(json.dumps({"seconds": time.perf_counter() - began, **done}))


if __name__ == "__main__":
    main()
