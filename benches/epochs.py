#!/usr/bin/env python3
"""epochs.py FOREBAY DIR: bytes that epochs of training read from the backing file system, by the size of the set against the nodes' memory.

A job of `--local N` nodes over a set of files in DIR. In each epoch every file is read once, whole, in the order of a new permutation, by
the nodes in turn, without what their kernels have of it. Sets have 0.5, 1, 1.2 and 2 times what the nodes keep (`--budget` times N, less what
a node needs beside chunks). Counts, not times: bytes by `forebay status --json`. Every figure is printed with its bar, and whether it is
met. What it makes it removes. Without --roots the job has what `up` chooses; with it, so many nodes read the backing file system.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import threading

SIZES = [0.5, 1.0, 1.2, 2.0]
FITS_PART = 0.01
REST_PART = 1.1
# Of a budget, what listings, names and tables take, and the chunks that a node reads for its own kernel alone.
BESIDE_BYTES = 32 << 20


def forebay(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def backing_bytes(program, job):
    nodes = json.loads(forebay(program, "status", "--json", *job))["nodes"]
    return sum(node["backing"]["bytes"] for node in nodes)


def read(path, piece=1 << 20):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        total = 0
        while data := os.read(descriptor, piece):
            total += len(data)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return total
    finally:
        os.close(descriptor)


def epoch(views, files, size_bytes, seed):
    order = files[:]
    random.Random(seed).shuffle(order)
    failures = []

    def of_node(rank):
        for name in order[rank :: len(views)]:
            if read(views[rank] / name) != size_bytes:
                failures.append(f"{name} at node {rank} is short")

    threads = [threading.Thread(target=of_node, args=(rank,)) for rank in range(len(views))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit("\n".join(failures))


def measure(program, given, directory, part):
    room = given.nodes * (given.budget_mib << 20) - given.nodes * BESIDE_BYTES
    size_bytes = given.file_mib << 20
    count = max(1, int(room * part) // size_bytes)
    data = directory / "set"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    files = [f"sample-{number:05}" for number in range(count)]
    for name in files:
        (data / name).write_bytes(os.urandom(size_bytes))
    job = ["--job", "epochs", "--directory", directory / "jobs"]
    view = directory / "view"
    words = ["--local", given.nodes, "--export", data, "--view", view, "--budget", f"{given.budget_mib}MiB", "--profile", "off"]
    forebay(program, "up", *job, *words, *(["--roots", given.roots] if given.roots else []))
    try:
        views = [view / str(rank) / str(data)[1:] for rank in range(given.nodes)]
        before, read_bytes = backing_bytes(program, job), []
        for number in range(given.epochs):
            epoch(views, files, size_bytes, number)
            now = backing_bytes(program, job)
            read_bytes.append(now - before)
            before = now
    finally:
        forebay(program, "down", *job)
    whole = count * size_bytes
    parts = ", ".join(f"{each / whole:6.1%}" for each in read_bytes)
    bar = FITS_PART if part <= 1 else REST_PART * (part - 1) / part
    worst = max(read_bytes[1:]) / whole
    print(f"  {part:3.1f} x ({count} files): {parts} (bar of epochs >= 2: {bar:.1%}: {'met' if worst <= bar else 'NOT met'})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay", type=pathlib.Path)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--budget-mib", type=int, default=192)
    parser.add_argument("--file-mib", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--roots", type=int)
    given = parser.parse_args()
    program = str(given.forebay.resolve())
    directory = given.directory.resolve() / "epochs"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    roots = f"--roots {given.roots}" if given.roots else "no --roots"
    print(f"{given.nodes} nodes, {given.budget_mib} MiB each, files of {given.file_mib} MiB, {roots}: of the set, read from the backing file system")
    try:
        for part in SIZES:
            measure(program, given, directory, part)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
