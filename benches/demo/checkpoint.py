#!/usr/bin/env python3
"""Writes a checkpoint and goes on computing: checkpoint.py FILE MIB

Prints `ready SHA256` when the contents are made, and waits for a line. Then writes the file, in writes of 1 MiB and one
fsync, and prints `free`. From then on it computes until its input ends, and prints how many steps it has made.
"""
import hashlib
import os
import sys
import threading

PIECE = 1 << 20
STEP = bytes(64 << 10)


def main():
    path, pieces = sys.argv[1], int(sys.argv[2])
    contents = os.urandom(pieces * PIECE)
    print("ready", hashlib.sha256(contents).hexdigest(), flush=True)
    if not sys.stdin.readline():
        return
    write(path, memoryview(contents))
    print("free", flush=True)
    print(compute_until_end_of_input(), flush=True)


def write(path, contents):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    for start in range(0, len(contents), PIECE):
        piece = contents[start:start + PIECE]
        while piece:
            piece = piece[os.write(descriptor, piece):]
    os.fsync(descriptor)
    os.close(descriptor)


def compute_until_end_of_input():
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    steps = 0
    while not ended.is_set():
        hashlib.sha256(STEP).digest()
        steps += 1
    return steps


if __name__ == "__main__":
    main()
