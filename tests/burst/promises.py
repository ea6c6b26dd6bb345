"""Changes files for ever, and says on its output what it begins and what is safe.

"begin NAME VERSION" is printed before anything is done, "safe NAME VERSION" when fsync has returned. What a file holds is told by
its name and version; version 0 of one is that it is not there, and so is every version that `gone` names.
"""
import os, random, sys


def bytes_of(name, version):
    """Of any length up to 200,000 bytes, each file and version its own."""
    source = random.Random(f"{name} {version}")
    return source.randbytes(source.choice([0, 3, 4096, 70_000, source.randrange(1, 200_000)]))


def block_of(name, version):
    return bytes([version % 251 + 1]) * BLOCK


BLOCK = 20_000
BLOCKS = 6


def say(*words):
    # One write: the reader may be told half of the last line only.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def sync_directory():
    directory = os.open(".", os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def replace(name, version):
    """By another file that takes its name."""
    with open(name + ".new", "wb") as file:
        file.write(bytes_of(name, version))
        file.flush()
        os.fsync(file.fileno())
    os.rename(name + ".new", name)
    sync_directory()


def rewrite(name, version):
    """The file itself, cut short first."""
    with open(name, "wb") as file:
        file.write(bytes_of(name, version))
        file.flush()
        os.fsync(file.fileno())


def remove(name, version):
    os.unlink(name)
    sync_directory()


def append(name, version):
    with open(name, "ab") as file:
        file.write(b"%s %012d\n" % (name.encode(), version))
        file.flush()
        os.fsync(file.fileno())


def write_block(name, version):
    """One of several, in place: the file is landed in place too."""
    mode = "r+b" if os.path.exists(name) else "w+b"
    with open(name, mode) as file:
        file.seek(version % BLOCKS * BLOCK)
        file.write(block_of(name, version))
        file.flush()
        os.fsync(file.fileno())


def main():
    choose = random.Random(int(sys.argv[1]))
    versions = {}
    there = set()
    while True:
        name = choose.choice(["replaced-a", "replaced-b", "rewritten", "appended", "blocks", f"new-{len(versions)}"])
        version = versions.get(name, 0) + 1
        kind = name.split("-")[0]
        change = {"rewritten": rewrite, "appended": append, "blocks": write_block}.get(kind, replace)
        if kind in ("replaced", "rewritten") and name in there and choose.random() < 0.2:
            change = remove
        versions[name] = version
        say("gone" if change is remove else "begin", name, version)
        change(name, version)
        (there.discard if change is remove else there.add)(name)
        say("safe", name, version)


if __name__ == "__main__":
    main()
