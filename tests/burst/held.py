"""Checks a directory against what `promises.py` has said: what was safe is there, and what is there is whole."""
import os, re, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from promises import BLOCK, BLOCKS, block_of, bytes_of

directory, said = sys.argv[1:]
begun, safe, gone = {}, {}, set()
for line in open(said):
    words = line.split()
    if len(words) != 3 or not line.endswith("\n"):
        continue
    what, name, version = words[0], words[1], int(words[2])
    (safe if what == "safe" else begun)[name] = version
    if what == "gone":
        gone.add((name, version))
wrong = []


def found(name):
    try:
        with open(os.path.join(directory, name), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def is_version(name, contents, version):
    """What programs may find: the version, and of a file that is rewritten all that it goes through."""
    if version == 0 or (name, version) in gone:
        return contents is None
    if contents is None:
        return False
    whole = bytes_of(name, version)
    is_going_on = name == "rewritten" and version > safe.get(name, 0)
    return contents == whole or is_going_on and contents == whole[: len(contents)]


for name in sorted(begun):
    contents, least, most = found(name), safe.get(name, 0), begun[name]
    if name == "appended":
        lines = b"".join(b"%s %012d\n" % (name.encode(), version) for version in range(1, most + 1))
        length = len(lines) // most
        if not lines.startswith(contents or b"") or len(contents or b"") < least * length:
            wrong.append(f"{name}: {len(contents or b'')} bytes, {least * length} are safe")
    elif name == "blocks":
        for block in range(BLOCKS):
            of_block = [version for version in range(1, most + 1) if version % BLOCKS == block]
            allowed = [version for version in of_block if version >= least or version == max((v for v in of_block if v <= least), default=0)]
            here = (contents or b"")[block * BLOCK : (block + 1) * BLOCK]
            is_safe = any(version <= least for version in of_block)
            if here not in [block_of(name, version) for version in allowed] and (is_safe or here.strip(b"\0")):
                wrong.append(f"{name}: block {block} is {here[:1]} and {len(set(here))} different, {len(here)} bytes")
    elif not any(is_version(name, contents, version) for version in range(least, most + 1)):
        which = [version for version in range(most + 1) if is_version(name, contents, version)]
        wrong.append(f"{name}: {least} to {most} were to be there, but {which or (contents and len(contents))}")
strange = [name for name in sorted(os.listdir(directory)) if not re.sub(r"\.new$", "", name) in begun]
wrong += [f"{name}: nobody wrote this" for name in strange]
print(len(safe), "files,", sum(safe.values()), "promises")
if wrong:
    sys.exit("\n".join(wrong))
