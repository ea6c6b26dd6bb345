"""Announcements: the paths that a program reads next, told to its node's daemon in the order of use.

A thread of its own sends them, so that neither an absent daemon nor a slow one delays the reader. `Announcer` has one epoch: it sends the
paths of the next `ahead` samples, and goes on as the reader asks for samples. One line of JSON is
`{"command": "announce", "paths": [...]}`, and the answer `{"ok": {"taken": N}}` names the paths that the daemon has taken: the first N.
Others are offered again a little later. An answer `{"error": ...}` means a daemon without announcements: this process sends no more.
Errors of the connection are told once, by `warnings`.
"""

from __future__ import annotations

import collections
import json
import logging
import os
import socket
import threading
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Callable, Optional, Union

from . import _node

#: Longest line, bytes, as daemons take it, with its newline.
LINE_BYTES_MAX = 192 << 10

#: A path that Linux would not open, bytes.
_PATH_BYTES_MAX = 4096

#: Paths that wait to be taken: more than two lines of short ones. A sample with more paths waits for room.
_WAITING_MAX = 16384

#: How long a daemon may take for one line, seconds. It only remembers the paths.
_DAEMON_S = 5.0

#: The first wait and the longest one before paths are offered again, seconds.
_AGAIN_S = (0.05, 1.0)

#: The longest wait after an error of the connection, seconds: a keeper has a new daemon after milliseconds, an operator after minutes.
_AGAIN_AFTER_ERROR_S = 30.0

#: Offers without a path taken, after the reader has asked for its last sample.
_LAST_OFFERS = 16

_HEAD = b'{"command":"announce","paths":['
_TAIL = b"]}\n"

Paths = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]", Iterable[Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]]]

_log = logging.getLogger("forebay")


class _Process:
    """State of this process, for all announcers. A fork takes it along, and the child begins where its parent was."""

    def __init__(self) -> None:
        #: A daemon has no announcements: nothing is sent any more.
        self.is_over = False
        self.has_warned = False


_process = _Process()


def is_over() -> bool:
    """Whether a daemon without announcements has ended them for this process."""
    return _process.is_over


def reset() -> None:
    """Begins again, as in a process that has announced nothing."""
    _process.is_over = _process.has_warned = False


class _NotTaken(Exception):
    """The daemon has no announcements."""


class Announcer:
    """Announces the samples of one epoch.

    `indices`: the samples in the order of use; `paths`: the files of one, called in the announcer's thread; `ahead`: samples beyond
    the one that was asked for last. `socket_path`: the control socket; by default that of the node whose view or export holds a path.
    """

    def __init__(
        self, indices: Sequence[int], paths: Callable[[int], Paths], ahead: int, socket_path: Optional[str] = None
    ) -> None:
        self._indices, self._paths, self._ahead, self._socket = indices, paths, ahead, socket_path
        self._pid = os.getpid()
        self._asked = 0  # samples that the reader has asked for
        self._signalled = 0  # of these, when the thread was last woken
        self._step = max(1, ahead // 4)
        self._next = 0  # the sample whose paths are to be offered next
        self._waiting: collections.deque[tuple[str, bytes]] = collections.deque()  # sockets and JSON strings
        self._last: Optional[bytes] = None
        self._is_closed = False
        self._wake = threading.Event()
        self._places: Optional[_node.Places] = None
        self._sockets: dict[_node.Node, Optional[str]] = {}
        self._thread = threading.Thread(target=self._run, name="forebay-announce", daemon=True)
        if not _process.is_over:
            try:
                self._thread.start()
            except RuntimeError as error:  # the limit of threads
                _log.debug("reads are not announced: %s", error)

    def asked(self, count: int) -> None:
        """The reader has asked for its first `count` samples. Costs an addition; every few samples it wakes the thread."""
        if os.getpid() != self._pid:
            return
        self._asked = count
        if count - self._signalled >= self._step or count >= len(self._indices):
            self._signalled = count
            self._wake.set()

    def close(self) -> None:
        """The reader asks for no more samples. An epoch that was read to its end is announced to its end."""
        if os.getpid() == self._pid and self._asked < len(self._indices):
            self.stop()

    def stop(self) -> None:
        """Nothing more is sent, but a line that is under way."""
        if os.getpid() == self._pid:
            self._is_closed = True
            self._wake.set()

    def join(self, timeout_s: float) -> bool:
        """Waits for the thread; whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._announce()
        except _NotTaken as error:
            _process.is_over = True
            _log.debug("the daemon takes no announcements, and none are sent: %s", error)
        except Exception as error:  # of `paths`
            _warn(f"reads of this epoch are announced no further: {type(error).__name__}: {error}")

    def _announce(self) -> None:
        if self._socket is None:
            self._places = _node.Places()
            if not self._places.has_node:
                return
        again_s, last_offers = _AGAIN_S[0], _LAST_OFFERS
        while not self._is_closed and not _process.is_over:
            self._wake.clear()
            self._fill()
            is_all = self._next >= len(self._indices)
            if not self._waiting:
                if is_all:
                    return
                self._wake.wait()
                continue
            try:
                taken, offered = self._offer()
                longest_s = _AGAIN_S[1]
            except OSError as error:
                taken, offered, longest_s = 0, 1, _AGAIN_AFTER_ERROR_S
                self._sockets.clear()
                _warn(f"the daemon of this node cannot be told what is read next, which is tried again: {error}")
            if taken:
                again_s = _AGAIN_S[0]
            if taken == offered:
                continue
            if not taken and is_all and self._asked >= len(self._indices):
                last_offers -= 1
                if not last_offers:
                    return
            self._pause(again_s)
            again_s = min(2 * again_s, longest_s)

    def _pause(self, duration_s: float) -> None:
        """Waits, though samples are asked for meanwhile, but not beyond the end."""
        until = time.monotonic() + duration_s
        while not self._is_closed and (left := until - time.monotonic()) > 0:
            self._wake.wait(left)
            self._wake.clear()

    def _fill(self) -> None:
        """Adds the paths of samples that have come within reach. Those that the reader passed long ago are left out."""
        behind = self._asked - self._ahead
        if self._next < behind:
            self._waiting.clear()
            self._next, self._last = behind, None
        until = min(self._asked + self._ahead, len(self._indices))
        while self._next < until and len(self._waiting) < _WAITING_MAX and not self._is_closed:
            for path in _each(self._paths(self._indices[self._next])):
                self._add(os.fsdecode(path))
            self._next += 1

    def _add(self, path: str) -> None:
        place, target = os.path.abspath(path), self._socket
        if self._places is not None:
            place, node = self._places.place(path)
            target = self._socket_of(node) if node is not None else None
        try:
            word = json.dumps(place, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return  # JSON has no such name.
        # Samples of one file follow each other.
        if target is not None and word != self._last and len(os.fsencode(place)) < _PATH_BYTES_MAX:
            self._last = word
            self._waiting.append((target, word))

    def _socket_of(self, node: _node.Node) -> Optional[str]:
        if node not in self._sockets:
            found = self._sockets[node] = _node.socket_path(node)
            if found is None:
                _log.debug("no control socket of node %d of the job %s is found: its reads are not announced", node.rank, node.job)
        return self._sockets[node]

    def _offer(self) -> tuple[int, int]:
        """Offers as much as one line to one daemon has room for, and forgets the paths that it has taken: their number, and that of all."""
        target, size, words = self._waiting[0][0], len(_HEAD) + len(_TAIL), []
        for socket_of_path, word in self._waiting:
            size += len(word) + 1
            if socket_of_path != target or size > LINE_BYTES_MAX + 1:
                break
            words.append(word)
        taken = min(_told(target, _HEAD + b",".join(words) + _TAIL), len(words))
        for _ in range(taken):
            self._waiting.popleft()
        return taken, len(words)


def _each(paths: Paths) -> Iterable[Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]]:
    return [paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths


def _told(path: str, line: bytes) -> int:
    """How many paths of a line the daemon behind a socket has taken. Raises OSError where it does not answer in time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        deadline = time.monotonic() + _DAEMON_S
        stream.settimeout(_DAEMON_S)
        stream.connect(path)
        stream.sendall(line)
        answer = bytearray()
        while not answer.endswith(b"\n"):
            stream.settimeout(max(deadline - time.monotonic(), 0.001))
            part = stream.recv(4096)
            if not part:
                break
            answer += part
    try:
        said = json.loads(answer)
        if "error" in said:
            raise _NotTaken(said["error"])
        return max(0, int(said["ok"]["taken"]))
    except (ValueError, TypeError, LookupError) as error:
        # A daemon that ends says nothing, or less than a line.
        raise ConnectionError(f"the daemon behind {path} gave no answer") from error


def _warn(text: str) -> None:
    """Once in a process."""
    if not _process.has_warned:
        _process.has_warned = True
        try:
            warnings.warn(f"forebay: {text}", RuntimeWarning, stacklevel=2)
        except Warning as error:  # they are errors here, and this is a thread
            _log.warning("%s", error)
