#!/usr/bin/env python3
"""On one node a file is overwritten, closed, and gets back its time of change; on another one two programs read it through open descriptors
beside a third, which does something else with the file. A reading that begins after the close finds the new bytes.

Usage: pages_beside.py append|chmod|look|read ROUNDS WRITER READER
"""

import mmap
import multiprocessing
import os
import struct
import sys

beside, rounds, at_writer, at_reader = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
written, read = os.path.join(at_writer, f"beside-{beside}"), os.path.join(at_reader, f"beside-{beside}")
TIME = (10**18, 10**18)
# The number of the last round whose file was closed, and whether all is over; of all processes.
shared = mmap.mmap(-1, 16)


def number(index):
    return struct.unpack_from("<q", shared, index * 8)[0]


def reader(found):
    file, last = os.open(read, os.O_RDONLY), 0
    while not number(1):
        closed = number(0)
        last = struct.unpack("<q", os.pread(file, 8, 0))[0]
        if last < closed:
            found.put(f"read {last} after {closed} was closed")
            return
    found.put("good")


def other():
    file, turn = os.open(read, os.O_RDWR), 0
    while not number(1):
        turn += 1
        if beside == "append":
            os.pwrite(file, b"x" * 100, (1 << 20) + turn * 100)
        elif beside == "chmod":
            os.fchmod(file, 0o600 | (turn & 1) * 0o44)
        elif beside == "look":
            os.fstat(file)
            os.stat(read)
        else:
            os.pread(file, 8, 4096)


with open(written, "wb") as out:
    out.write(bytes(16384))
os.utime(written, ns=TIME)
found = multiprocessing.Queue()
processes = [multiprocessing.Process(target=reader, args=(found,)) for _ in range(2)]
processes.append(multiprocessing.Process(target=other))
[process.start() for process in processes]
for number_of_round in range(1, rounds + 1):
    out = os.open(written, os.O_RDWR)
    os.pwrite(out, struct.pack("<q", number_of_round) * 512, 0)
    os.utime(out, ns=TIME)
    os.close(out)
    struct.pack_into("<q", shared, 0, number_of_round)
struct.pack_into("<q", shared, 8, 1)
outcomes = {found.get(timeout=60) for _ in range(2)}
[process.join() for process in processes]
print(" ".join(sorted(outcomes)))
