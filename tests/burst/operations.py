"""Random operations on a directory; prints what each comes to and what is there in the end.

The same seed does the same in every directory, so two file systems that agree print the same. Several directories, with ":"
between them, are several nodes' ways to the same files: each operation goes by one of them, and is committed.
"""
import errno, hashlib, mmap, os, random, stat, sys

roots, seed, count = sys.argv[1].split(":"), int(sys.argv[2]), int(sys.argv[3])
os.chdir(roots[0])
random = random.Random(seed)
directories = ["."]
opened = []


def name():
    return os.path.join(random.choice(directories), random.choice("abcdefg"))


def data(most=300_000):
    size = random.choice([1, 100, 4096, 5000, 65536, random.randrange(1, most)])
    return random.randbytes(size)


def write_whole():
    with open(name(), "wb") as file:
        file.write(data())


def write_part():
    with open(name(), "r+b") as file:
        file.seek(random.randrange(400_000))
        file.write(data())


def append():
    with open(name(), "ab") as file:
        file.write(data(10_000))


def copy():
    """As cp does it."""
    with open(name(), "rb") as old, open(name(), "wb") as new:
        return os.copy_file_range(old.fileno(), new.fileno(), 1 << 20)


def map_and_write():
    with open(name(), "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        at = random.randrange(len(mapped))
        mapped[at : at + 5000] = random.randbytes(min(5000, len(mapped) - at))
        mapped.flush()


def truncate():
    os.truncate(name(), random.randrange(400_000))


def read_part():
    with open(name(), "rb") as file:
        file.seek(random.randrange(300_000))
        return hashlib.sha256(file.read(random.randrange(200_000))).hexdigest()


def hold():
    """A file that stays open, whatever becomes of its name."""
    if len(opened) > 8:
        opened.pop(0).close()
    opened.append(open(name(), random.choice(["r+b", "w+b", "a+b"]), buffering=0))


def use_held():
    file = random.choice(opened)
    file.seek(random.randrange(200_000))
    if random.random() < 0.5:
        written = file.write(data(50_000))
        if len(roots) > 1:
            os.fsync(file.fileno())
        return written
    return hashlib.sha256(file.read(100_000)).hexdigest(), os.fstat(file.fileno()).st_size


def fsync_held():
    os.fsync(random.choice(opened).fileno())


def make_directory():
    path = name()
    os.mkdir(path)
    if len(directories) < 12:
        directories.append(path)


def size():
    """Of a directory every file system has its own."""
    about = os.lstat(name())
    return None if stat.S_ISDIR(about.st_mode) else about.st_size


def exclusive():
    os.close(os.open(name(), os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def rename():
    """A kernel does not find a directory within a rename that another node has moved, until something else has looked at it."""
    old, new = name(), name()
    try:
        os.rename(old, new)
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        os.path.lexists(old), os.path.lexists(new)
        os.rename(old, new)


operations = [write_whole] * 6 + [write_part] * 4 + [append] * 2 + [truncate, read_part, read_part, exclusive]
operations += [rename] * 4 + [lambda: os.unlink(name())] * 2
operations += [lambda: os.link(name(), name()), lambda: os.symlink("x" * random.randrange(1, 50), name())]
operations += [make_directory] * 2 + [lambda: os.rmdir(name()), hold, hold, use_held, use_held, use_held, fsync_held]
operations += [lambda: os.chmod(name(), random.choice([0o600, 0o644, 0o755, 0o4711])), lambda: os.utime(name(), (5, 7))]
operations += [copy, copy, map_and_write, map_and_write, size, lambda: sorted(os.listdir(random.choice(directories)))]

for number in range(count):
    operation = random.choice(operations)
    os.chdir(random.choice(roots))
    try:
        print(number, operation(), flush=True)
    except OSError as error:
        print(number, error.errno, flush=True)
    except (IndexError, ValueError):
        print(number, "none", flush=True)
for file in opened:
    file.close()

for directory, inner, files in sorted(os.walk(".")):
    for entry in sorted(inner + files):
        path = os.path.join(directory, entry)
        about = os.lstat(path)
        what = [path, oct(about.st_mode), about.st_nlink]
        if stat.S_ISREG(about.st_mode):
            with open(path, "rb") as file:
                what += [about.st_size, hashlib.sha256(file.read()).hexdigest()]
        if stat.S_ISLNK(about.st_mode):
            what.append(os.readlink(path))
        print(*what)
