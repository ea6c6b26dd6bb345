"""A job of two nodes on this machine, for tests."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from forebay import _command


def missing() -> "str | None":
    """Why no job can be started here."""
    if shutil.which(_command.program()) is None:
        return "there is no command forebay; FOREBAY_COMMAND names one"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be used"
    return None


class JobCase(unittest.TestCase):
    """Tests beside one job: an export with the files a and b, and a burst tier."""

    JOB = "pytests"

    @classmethod
    def setUpClass(cls) -> None:
        why = missing()
        if why is not None:
            raise unittest.SkipTest(why)
        # Sockets have short paths.
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="fb-", dir="/tmp")).resolve()
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        for name in ("export", "backing", "store", "jobs"):
            (cls.place / name).mkdir(mode=0o700)
        cls.export = cls.place / "export"
        (cls.export / "a").write_text("a" * 1000)
        (cls.export / "b").write_text("b" * 1000)
        (cls.export / "link").symlink_to("a")
        cls.before = {key: os.environ.get(key) for key in ("FOREBAY_DIRECTORY", "FOREBAY_JOB")}
        cls.addClassCleanup(cls._restore)
        os.environ["FOREBAY_DIRECTORY"] = str(cls.place / "jobs")
        os.environ.pop("FOREBAY_JOB", None)
        up = ["up", "--json", "--local", "2", "--job", cls.JOB, "--export", str(cls.export), "--profile", "off"]
        up += ["--burst", f"{cls.place / 'ckpt'}={cls.place / 'backing'}", "--burst-store", str(cls.place / "store")]
        (cls.place / "ckpt").mkdir()
        cls.addClassCleanup(cls.forebay, "down", "--job", cls.JOB)
        cls.up = json.loads(cls.forebay(*up))

    @classmethod
    def _restore(cls) -> None:
        for key, value in cls.before.items():
            os.environ.pop(key, None)
            if value is not None:
                os.environ[key] = value

    @classmethod
    def forebay(cls, *words: str) -> str:
        """What the command prints."""
        done = subprocess.run([_command.program(), *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def view(self, rank: int) -> pathlib.Path:
        """The export in the view of a node."""
        return self.place / "jobs" / self.JOB / "view" / str(rank) / self.export.relative_to("/")

    def daemon_pid(self, rank: int) -> int:
        record = json.loads((self.place / "jobs" / self.JOB / f"node-{rank}.json").read_text())
        return int(record["daemon"]["pid"])
