"""Files of the burst tier on their way to the backing file system, as `forebay landed --json` has them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from . import _command, _fields
from ._command import AnyPath


@dataclass(frozen=True)
class LandedFile:
    """A file, by its path in the burst tier.

    `state`: "dirty", "committed", "draining", "verified", "landed", "lost", or "unknown" where nothing can be said of the path.
    `bytes` and `landed_bytes` are `None` then. `missing`: pairs of offset and length in bytes that have not landed. `why`: the
    reason. `link` and `target`: the path as it was given and where it leads, if it is a symbolic link.
    """

    path: str = ""
    state: str = ""
    bytes: Optional[int] = None
    landed_bytes: Optional[int] = None
    missing: tuple[tuple[int, int], ...] = field(default=(), metadata={"part": lambda raw: tuple(map(tuple, raw))})
    why: Optional[str] = None
    link: Optional[str] = None
    target: Optional[str] = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Landed:
    """The answer of `landed`.

    `landed`: whether everything that was asked about is in the backing file system. `files`: one for each file, link and directory
    that was named, and for each file below a directory; empty where no path was given. `not_landed_bytes` and `not_landed_files`: of
    the whole tier, where no path was given, else `None`. `silent_nodes`: ranks that did not answer then. `raw`: the object itself.
    """

    landed: bool = False
    files: tuple[LandedFile, ...] = field(default=(), metadata=_fields.parts(LandedFile))
    not_landed_bytes: Optional[int] = field(
        default=None, metadata={"key": "totals", "part": lambda raw: raw.get("not_landed_bytes")}
    )
    not_landed_files: Optional[int] = field(
        default=None, metadata={"key": "totals", "part": lambda raw: raw.get("not_landed_files")}
    )
    silent_nodes: tuple[int, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


def landed(*paths: AnyPath, job: Optional[str] = None) -> Landed:
    """How far files of the burst tier are on their way to the backing file system; without paths, the whole tier.

    A file that has not landed is an answer and no error. Raises ForebayError where there is no job or burst tier, or nothing is known
    of any of the paths.
    """
    words = ["landed", "--json", *_command.of_job(job), "--", *map(os.fsdecode, paths)]
    raw, ended = _command.run(words, _command.json_object, well=(_command.DONE, _command.DONE_IN_PART))
    return _fields.of(Landed, {**raw, "landed": ended == _command.DONE})
