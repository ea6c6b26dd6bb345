"""Warm-up: files are brought to the nodes before programs read them, by `forebay warmup`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Callable, Optional

from . import _command, _fields
from ._command import AnyPath, ForebayError

_MODES = ("spread", "each")


@dataclass(frozen=True)
class FailedFile:
    """A file that could not be read, and the reason."""

    path: str = ""
    why: str = ""


@dataclass(frozen=True)
class WarmupProgress:
    """How far a warm-up is.

    `bytes` and `files`: of all paths, as far as they have been found; `bytes_done` and `files_done`: of these, on the nodes.
    `bytes_per_s` and `time_left_ms` are `None` while they are not known. `done`: whether it has ended; only then `failed` names the
    files that could not be read. `raw`: the object as it was printed.
    """

    bytes: int = 0
    bytes_done: int = 0
    files: int = 0
    files_done: int = 0
    bytes_per_s: Optional[float] = None
    time_left_ms: Optional[int] = None
    done: bool = False
    failed: tuple[FailedFile, ...] = field(default=(), metadata=_fields.parts(FailedFile))
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


class _Raised(BaseException):
    """Its cause was raised by the caller's function."""


def warmup(
    *paths: AnyPath,
    mode: str = "spread",
    job: Optional[str] = None,
    progress: Optional[Callable[[WarmupProgress], object]] = None,
) -> WarmupProgress:
    """Brings the files below `paths` to the nodes of a job, and returns when they are there: the last progress, with `failed`.

    `mode`: "spread" (each part to the node that is its home: data sets) or "each" (all to every node: weights). `progress` is called
    once a second, and at the end. If it raises, the warm-up ends with that exception; what has come stays.

    Raises ForebayError where there is no job or no path can be warmed up, or where the command is older and has no `warmup`;
    ValueError for another mode and without paths. Files that could not be read are named in `failed`.
    """
    if mode not in _MODES:
        raise ValueError(f"mode is {' or '.join(map(repr, _MODES))}, not {mode!r}")
    if not paths:
        raise ValueError("a warm-up needs a path")
    words = ["warmup", "--json", f"--{mode}", *_command.of_job(job), "--", *map(os.fsdecode, paths)]

    def last(lines: IO[bytes]) -> Optional[WarmupProgress]:
        reached = None
        for line in lines:
            reached = _fields.of(WarmupProgress, json.loads(line))
            if progress is not None:
                try:
                    progress(reached)
                except ValueError as error:
                    # Such an error of the answer's means something else.
                    raise _Raised from error
        return reached if reached is not None and reached.done else None

    try:
        reached, _ = _command.run(words, last, well=(_command.DONE, _command.DONE_IN_PART))
    except _Raised as raised:
        assert raised.__cause__ is not None
        raise raised.__cause__ from None
    except ForebayError as error:
        if error.status == _command.USAGE and "unrecognized subcommand" in str(error):
            said = f"{_command.program()} is older than this package: it has no command `warmup`"
            raise ForebayError(said, error.status) from error
        raise
    assert reached is not None
    return reached
