"""One job of Forebay: `up`, counts at the backing file system by `status --json`, `down`."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

COUNTS = ["opens", "stats", "reads", "listings", "bytes", "errors"]
ENDS_WITHIN_S = 20


def words(*parts):
    return [str(part) for part in parts]


class Job:
    """`environment` is added to that of every call; a test bed needs its own."""

    def __init__(self, program, directory, name="bulk", environment=None):
        self.program = str(program)
        self.view_root = pathlib.Path(directory) / "view"
        self.named = words("--job", f"{name}-{os.getpid()}", "--directory", pathlib.Path(directory) / "jobs")
        # `down` keeps logs below the state's directory.
        self.environment = {**os.environ, "XDG_STATE_HOME": str(pathlib.Path(directory) / "state"), **(environment or {})}

    def call(self, *parts, statuses=(0,)):
        done = subprocess.run([self.program, *words(*parts)], capture_output=True, text=True, env=self.environment)
        if done.returncode not in statuses:
            sys.exit(f"{' '.join(words(*parts))}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def has_option(self, option):
        return option in self.call("up", "--help=all")

    @contextlib.contextmanager
    def up(self, *options, profile="off"):
        """Up with these options until the block ends, however it does."""
        self.view_root.mkdir(parents=True, exist_ok=True)
        try:
            self.call("up", *self.named, "--view", self.view_root, "--profile", profile, "--report", "off", *options)
            yield self
        finally:
            # 3: a node that was killed does not answer.
            self.call("down", *self.named, statuses=(0, 1, 3))

    def nodes(self):
        """The nodes that answer."""
        return json.loads(self.call("status", "--json", *self.named, statuses=(0, 3)))["nodes"]

    def backing(self):
        """Sums over the nodes that answer."""
        return self.backing_of(self.nodes())

    @staticmethod
    def backing_of(nodes):
        return {key: sum(node["backing"][key] for node in nodes if "backing" in node) for key in COUNTS}

    def view(self, rank, export, is_local=True):
        """Where node `rank` shows `export`."""
        below = str(pathlib.Path(export).resolve())[1:]
        return self.view_root / str(rank) / below if is_local else self.view_root / below

    def kill(self, rank):
        """SIGKILL to a node's keeper, which would start another daemon, and to its daemon."""
        node = next(node for node in self.nodes() if node["rank"] == rank)
        for pid in [node["keeper_pid"], node["pid"]]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended = time.monotonic() + ENDS_WITHIN_S
        while any(is_alive(pid) for pid in [node["keeper_pid"], node["pid"]]):
            if time.monotonic() > ended:
                sys.exit(f"node {rank} does not end")
            time.sleep(0.01)


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def grown(before, after):
    return {key: after[key] - before[key] for key in after}
