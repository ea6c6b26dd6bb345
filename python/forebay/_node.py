"""Which node's daemon serves a path, and where its control socket is, without a program started or a daemon asked.

The kernel names the node: views and exports are mounts of the type `fuse.forebay` whose source is `forebay:JOB/RANK@PID`, in the namespace
of `forebay run`, too. Sockets lie in the job's private directory, below the places that `forebay` itself looks in. Its owner and mode are
checked as the command does it: anybody may make directories in /tmp.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from typing import NamedTuple, Optional

from . import _command

#: Directories whose places are remembered: those of a data set with one directory for each class.
_PLACES_MAX = 4096

#: How long `forebay config` may take, which looks at no job.
_CONFIG_S = 10.0

_SOURCE = re.compile(r"forebay:(?P<job>[^/]+)/(?P<rank>\d+)@\d+\Z")


class Node(NamedTuple):
    """A node of a job on this host."""

    job: str
    rank: int


def mounts(text: str) -> dict[str, Optional[Node]]:
    """Mount points of a text as /proc/self/mountinfo, each with the node that serves it; `None` for those of other file systems."""
    found: dict[str, Optional[Node]] = {}
    for line in text.splitlines():
        words = line.split(" ")
        try:
            dash = words.index("-", 6)
            point, kind, source = words[4], words[dash + 1], words[dash + 2]
        except (ValueError, IndexError):
            continue
        named = _SOURCE.match(_unescaped(source)) if kind == "fuse.forebay" else None
        # A later mount at the same point covers an earlier one.
        found[_unescaped(point)] = Node(named["job"], int(named["rank"])) if named else None
    return found


def _unescaped(text: str) -> str:
    """The kernel writes blanks, tabs, newlines and backslashes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


class Places:
    """Absolute paths of files without links on the way to them, and the nodes that serve them, by the mounts at the time of making."""

    def __init__(self) -> None:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            self._mounts = mounts(file.read())
        self._directories: dict[str, tuple[str, Optional[Node]]] = {}

    @property
    def has_node(self) -> bool:
        """Whether any mount is a node's."""
        return any(self._mounts.values())

    def place(self, path: str) -> tuple[str, Optional[Node]]:
        """Where `path` is, and the node that serves it. Links on the way are followed; whether the file exists does not matter."""
        directory, name = os.path.split(os.path.abspath(path))
        known = self._directories.get(directory)
        if known is None:
            if len(self._directories) >= _PLACES_MAX:
                self._directories.clear()
            place = os.path.realpath(directory)
            known = self._directories[directory] = (place, self._node(place))
        return os.path.join(known[0], name), known[1]

    def _node(self, directory: str) -> Optional[Node]:
        while directory not in self._mounts and directory != os.path.dirname(directory):
            directory = os.path.dirname(directory)
        return self._mounts.get(directory)


def socket_path(node: Node) -> Optional[str]:
    """The control socket of a node's daemon; `None` where this user has none."""
    for base in _bases():
        directory = os.path.join(base, node.job)
        socket = os.path.join(directory, f"node-{node.rank}.sock")
        if _is_private(base) and _is_private(directory) and os.path.exists(socket):
            return socket
    return None


def _bases() -> Iterator[str]:
    """Directories that hold this user's jobs, in the order in which `forebay` looks into them."""
    given = os.environ.get("FOREBAY_DIRECTORY")
    if given is None and os.environ.get("FOREBAY_CONFIG"):
        given = _configured()
    if given:
        yield os.path.abspath(given)
    session = os.environ.get("XDG_RUNTIME_DIR")
    if session and os.path.isabs(session):
        yield os.path.join(session, "forebay")
    usual = f"forebay-{os.geteuid()}"
    yield f"/tmp/{usual}"
    # Where another user had that name.
    try:
        names = os.listdir("/tmp")
    except OSError:
        return
    for name in sorted(names):
        if name.startswith(f"{usual}."):
            yield f"/tmp/{name}"


def _configured() -> Optional[str]:
    """The directory in the configuration file."""
    try:
        words = [_command.program(), "config", "--json"]
        printed = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_CONFIG_S, check=True)
        value = json.loads(printed.stdout)["directory"]["value"]
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        return None
    return value if isinstance(value, str) else None


def _is_private(path: str) -> bool:
    """Whether it is a real directory of this user that no other may enter."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
