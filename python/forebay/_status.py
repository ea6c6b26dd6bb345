"""The state of a job, as `forebay status --json` has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from . import _command, _fields
from ._command import ForebayError


def _raw() -> Any:
    return field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Trouble:
    """A reason why something is blocked, and the remedy."""

    why: str = ""
    do: Optional[str] = None


@dataclass(frozen=True)
class Verdict:
    """Whether the job is well.

    `state`: "healthy", "landing" or "blocked". `why` and `do` are those of the worst of `troubles`.
    """

    state: str = ""
    why: Optional[str] = None
    do: Optional[str] = None
    troubles: tuple[Trouble, ...] = field(default=(), metadata=_fields.parts(Trouble))


@dataclass(frozen=True)
class Job:
    """The job. `uptime_ms`: milliseconds since `forebay up`. `node_count`: of all its nodes, `roots`: ranks of those that read the backing
    file system."""

    name: str = ""
    exports: tuple[str, ...] = ()
    node_count: int = field(default=0, metadata={"key": "nodes"})
    roots: tuple[int, ...] = ()
    fan_out: int = 0
    security: str = ""
    uptime_ms: int = 0
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class CacheUse:
    """One kind of entries: their number and bytes now; hits, misses and evictions since the daemon began."""

    entries: int = 0
    bytes: int = 0
    hits: int = 0
    misses: int = 0
    evicted: int = 0


@dataclass(frozen=True)
class Cache:
    """The caches of a node."""

    bytes: int = 0
    attributes: CacheUse = field(default=CacheUse(), metadata=_fields.part(CacheUse))
    listings: CacheUse = field(default=CacheUse(), metadata=_fields.part(CacheUse))
    chunks: CacheUse = field(default=CacheUse(), metadata=_fields.part(CacheUse))
    negative_hits: int = 0


@dataclass(frozen=True)
class Backing:
    """Requests to the backing file system, bytes read from it and errors, since the daemon began."""

    listings: int = 0
    stats: int = 0
    opens: int = 0
    reads: int = 0
    bytes: int = 0
    errors: int = 0


@dataclass(frozen=True)
class Overlay:
    """Requests between nodes, and their bytes, since the daemon began."""

    requests_sent: int = 0
    requests_served: int = 0
    coalesced: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    failovers: int = 0
    hedged: int = 0


@dataclass(frozen=True)
class Burst:
    """The burst tier of a node, bytes but for `left_files`. `time_left_ms` and `drain_bytes_per_s`: of the node that leads the tree; `None`
    while it is not known. `why`: the reason if nothing lands."""

    dir: str = ""
    backing: str = ""
    mount: str = ""
    capacity_bytes: int = 0
    dirty_bytes: int = 0
    committed_bytes: int = 0
    draining_bytes: int = 0
    landed_bytes: int = 0
    lost_bytes: int = 0
    left_bytes: int = 0
    left_files: int = 0
    drain_bytes_per_s: Optional[float] = None
    time_left_ms: Optional[int] = None
    why: Optional[str] = None
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class Node:
    """A node. `state`: "ready" if its daemon answers; of others, `why` is the reason, and numbers are 0.

    `view`: the mount point of its view. `parents`: ranks that are asked next. `budget_bytes`: memory for its caches, `memory_bytes`: of the
    whole daemon. `bytes_read`: by programs. `burst`: `None` without a burst tier.
    """

    rank: int = 0
    host: str = ""
    state: str = ""
    why: Optional[str] = None
    pid: Optional[int] = None
    view: Optional[str] = None
    uptime_ms: int = 0
    parents: tuple[int, ...] = ()
    memory_bytes: int = 0
    budget_bytes: int = 0
    bytes_read: int = field(default=0, metadata={"key": "kernel", "part": lambda raw: raw.get("bytes_read", 0)})
    cache: Cache = field(default=Cache(), metadata=_fields.part(Cache))
    backing: Backing = field(default=Backing(), metadata=_fields.part(Backing))
    overlay: Overlay = field(default=Overlay(), metadata=_fields.part(Overlay))
    burst: Optional[Burst] = field(default=None, metadata=_fields.part(Burst))
    raw: Mapping[str, Any] = _raw()

    @property
    def is_ready(self) -> bool:
        """Whether its daemon answers."""
        return self.state == "ready"


@dataclass(frozen=True)
class Totals:
    """Sums over the nodes that answer."""

    memory_bytes: int = 0
    bytes_read: int = field(default=0, metadata={"key": "kernel", "part": lambda raw: raw.get("bytes_read", 0)})
    cache: Cache = field(default=Cache(), metadata=_fields.part(Cache))
    backing: Backing = field(default=Backing(), metadata=_fields.part(Backing))
    overlay: Overlay = field(default=Overlay(), metadata=_fields.part(Overlay))
    raw: Mapping[str, Any] = _raw()


@dataclass(frozen=True)
class Status:
    """The state of a job: `nodes` in the order of their ranks. `raw`: the whole object of `forebay status --json`."""

    job: Job = field(default=Job(), metadata=_fields.part(Job))
    nodes: tuple[Node, ...] = field(default=(), metadata=_fields.parts(Node))
    totals: Totals = field(default=Totals(), metadata=_fields.part(Totals))
    verdict: Verdict = field(default=Verdict(), metadata=_fields.part(Verdict))
    raw: Mapping[str, Any] = _raw()

    @property
    def is_well(self) -> bool:
        """Whether nothing is blocked and every node answers."""
        return self.verdict.state in ("healthy", "landing") and all(node.is_ready for node in self.nodes)


def status(job: Optional[str] = None) -> Status:
    """The state of a job on this host: `job`, else that of the allocation, else the only one.

    A job that is blocked, or that lacks a node, is an answer and no error. Raises ForebayError where there is no job, or none of its
    daemons answers, or where several jobs are up and none is named.
    """
    words = ["status", "--json", *_command.of_job(job)]
    raw, _ = _command.run(words, _command.json_object, well=(_command.DONE, _command.DONE_IN_PART))
    if "nodes" not in raw:
        several = [str(each.get("job")) for each in raw.get("jobs", [])]
        said = f"several jobs are up: {', '.join(several)}; choose one with job=NAME" if several else "forebay printed no status"
        raise ForebayError(said, 0)
    return _fields.of(Status, raw)
