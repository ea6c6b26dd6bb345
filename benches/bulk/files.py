"""Sets of files: random contents, of which no two are alike, and files as safetensors lays them out."""

import json
import os
import pathlib
import random
import shutil
import struct
import sys

MIB = 1 << 20
TENSOR_BYTES = 64 * MIB


def make_samples(directory, count, size_bytes):
    """`count` files of `size_bytes` in a new directory; their names."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    need_room(directory, count * size_bytes)
    names = [f"sample-{number:05}" for number in range(count)]
    for name in names:
        (directory / name).write_bytes(os.urandom(size_bytes))
    return names


def make_weights(directory, count, size_bytes):
    """`count` files in a new directory: eight bytes of the header's length, a header of JSON, tensors of BF16; their names."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    need_room(directory, count * size_bytes)
    names = [f"model-{number + 1:05}-of-{count:05}.safetensors" for number in range(count)]
    for name in names:
        with open(directory / name, "wb") as file:
            file.write(header(size_bytes))
            left = size_bytes
            while left:
                left -= file.write(os.urandom(min(left, 8 * MIB)))
    return names


def header(data_bytes):
    tensors = {}
    for index, start in enumerate(range(0, data_bytes, TENSOR_BYTES)):
        end = min(start + TENSOR_BYTES, data_bytes)
        tensors[f"model.layers.{index}.weight"] = {"dtype": "BF16", "shape": [(end - start) // 2], "data_offsets": [start, end]}
    text = json.dumps(tensors).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def need_room(directory, size_bytes):
    free = shutil.disk_usage(directory).free
    if free < size_bytes + 512 * MIB:
        sys.exit(f"{directory} has {free // MIB} MiB free, and the files need {size_bytes // MIB} MiB")


def permutation(names, seed):
    order = names[:]
    random.Random(seed).shuffle(order)
    return order


def read_once(path, piece=MIB, advice=None):
    """Reads a whole file that the kernel has nothing of before, and keeps nothing of after; its bytes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        if advice is not None:
            os.posix_fadvise(descriptor, 0, 0, advice)
        total = 0
        while data := os.read(descriptor, piece):
            total += len(data)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return total
    finally:
        os.close(descriptor)


def whole_bytes(paths):
    return sum(pathlib.Path(path).stat().st_size for path in paths)
