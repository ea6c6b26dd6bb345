"""Reads a file on every node while all of them change it: nobody finds a page that is not the file's.

Each node reads by a descriptor that stays open, by one that is opened anew, and by a mapping. Arguments: a seed, how often the file is
changed, and the directories of the nodes.
"""
import fcntl, mmap, os, random, sys, threading

seed, changes, directories = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
source = random.Random(seed)
NAME = "pages"
SIZE = 200_000


def path(node):
    return os.path.join(directories[node], NAME)


def rewrite(node, file):
    """As long as before, and as old as before."""
    times = os.stat(path(node))
    start = source.randrange(len(file))
    new = source.randbytes(source.choice([1, 5000, 70_000]))[: len(file) - start]
    with open(path(node), "r+b", buffering=0) as out:
        os.pwrite(out.fileno(), new, start)
        os.fsync(out.fileno())
        os.utime(out.fileno(), ns=(times.st_atime_ns, times.st_mtime_ns))
    return file[:start] + new + file[start + len(new) :]


def rewrite_under_a_lock(node, file):
    """Seen by whoever gets the lock, without fsync; the descriptor stays open."""
    start, new = source.randrange(len(file)), source.randbytes(3000)
    new = new[: len(file) - start]
    fcntl.lockf(writers[node], fcntl.LOCK_EX)
    os.pwrite(writers[node], new, start)
    fcntl.lockf(writers[node], fcntl.LOCK_UN)
    return file[:start] + new + file[start + len(new) :]


def append(node, file):
    new = source.randbytes(source.choice([1, 4096, 9000]))
    with open(path(node), "ab", buffering=0) as out:
        out.write(new)
    return file + new


def cut(node, file):
    size = source.randrange(1, SIZE)
    os.truncate(path(node), size)
    return file[:size] + bytes(max(0, size - len(file)))


def check(node, file, what):
    def same(how, found):
        if found != file:
            at = next((i for i, pair in enumerate(zip(found, file)) if pair[0] != pair[1]), min(len(found), len(file)))
            sys.exit(f"seed {seed}, {what}: node {node} {how}: {len(found)} bytes of {len(file)}, wrong from {at}")

    fcntl.lockf(readers[node], fcntl.LOCK_SH)
    fcntl.lockf(readers[node], fcntl.LOCK_UN)
    same("by its old descriptor", os.pread(readers[node], len(file) + 1, 0))
    same("by its old descriptor again", os.pread(readers[node], len(file) + 1, 0))
    same("by a new descriptor", open(path(node), "rb").read())
    same("by its mapping", bytes(mappings[node][: len(file)]))


with open(path(0), "wb") as out:
    out.write(bytes(2 * SIZE))
readers = [os.open(path(node), os.O_RDONLY) for node in range(len(directories))]
writers = [os.open(path(node), os.O_RDWR) for node in range(len(directories))]
mappings = [mmap.mmap(reader, 2 * SIZE, prot=mmap.PROT_READ) for reader in readers]
file = source.randbytes(SIZE)
with open(path(0), "wb") as out:
    out.write(file)
for number in range(changes):
    change, node = source.choice([rewrite, rewrite, rewrite_under_a_lock, append, cut]), source.randrange(len(directories))
    if len(file) > 2 * SIZE - 10_000:
        change = cut
    file = change(node, file)
    for reader in range(len(directories)):
        check(reader, file, f"change {number}: {change.__name__} on node {node}")

# A reader that never pauses finds nothing that is older than what was committed when it began to read.
committed, is_over, faults = [0], threading.Event(), []


def read_on(node):
    reader = os.open(path(node), os.O_RDONLY)
    while not is_over.is_set():
        least = committed[0]
        found = os.pread(reader, SIZE, 0)
        if len(found) != SIZE or min(found) < least:
            faults.append(f"seed {seed}: node {node} finds version {min(found, default=0)} of {len(found)} bytes after {least}")
            return


with open(path(0), "wb") as out:
    out.write(bytes(SIZE))
threads = [threading.Thread(target=read_on, args=(node,)) for node in range(len(directories))]
for thread in threads:
    thread.start()
for version in range(1, 200):
    os.pwrite(writers[version % len(writers)], bytes([version]) * SIZE, 0)
    os.fsync(writers[version % len(writers)])
    committed[0] = version
is_over.set()
for thread in threads:
    thread.join()
if faults:
    sys.exit("\n".join(faults))
print("good")
