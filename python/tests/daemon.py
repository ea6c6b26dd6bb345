"""A listening socket that speaks the contract of announcements, as a daemon does."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable


class Daemon:
    """Keeps the lines that come, and answers each with what `answer` makes of its paths: an object, or `None` to say nothing and
    to keep the connection until the end."""

    def __init__(self, answer: Callable[[list], "dict | None"] = lambda paths: {"ok": {"taken": len(paths)}}) -> None:
        self._place = tempfile.TemporaryDirectory()
        self.path = os.path.join(self._place.name, "node-0.sock")
        self.lines: list[bytes] = []
        self.times: list[float] = []
        self.taken: list[str] = []
        self._answer = answer
        self._kept: list[socket.socket] = []
        self._changed = threading.Condition()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(8)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            line = stream.makefile("rb").readline()
            asked = json.loads(line)
            assert set(asked) == {"command", "paths"} and asked["command"] == "announce", asked
            answer = self._answer(asked["paths"])
            with self._changed:
                self.lines.append(line)
                self.times.append(time.monotonic())
                if answer is not None and "ok" in answer:
                    self.taken += asked["paths"][: answer["ok"].get("taken", 0)]
                self._changed.notify_all()
            if answer is None:
                self._kept.append(stream)
            else:
                stream.sendall(json.dumps(answer).encode() + b"\n")
                stream.close()

    def wait(self, condition: Callable[[], bool], timeout_s: float = 30) -> bool:
        """Whether the condition comes true, which is looked at after each line."""
        with self._changed:
            return self._changed.wait_for(condition, timeout_s)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for stream in self._kept:
            stream.close()
        self._place.cleanup()


def until(condition: Callable[[], bool], timeout_s: float = 30) -> bool:
    """Whether the condition comes true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
