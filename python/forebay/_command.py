"""How the command `forebay` is found and run: its answer is read from standard output, its words on failure from standard error."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from typing import IO, Any, Callable, Optional, TypeVar, Union

T = TypeVar("T")

#: A path as callers give it.
AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

DONE = 0
USAGE = 2
DONE_IN_PART = 3


class ForebayError(Exception):
    """The command failed. The text is the command's own words.

    `status`: its exit status, 1 (failed), 2 (wrong usage) or 3 (done in part); negative: the signal that ended it; 0: it ended
    well with an answer that is not the expected one.
    """

    status: int

    def __init__(self, said: str, status: int) -> None:
        super().__init__(said or f"forebay ended with status {status} and said nothing")
        self.status = status

    def __reduce__(self) -> tuple[Any, ...]:
        # It may come from another process.
        return type(self), (str(self), self.status)


def program() -> str:
    """The command: `FOREBAY_COMMAND`, else that beside this Python, else the name by which PATH is searched."""
    # An environment need not be activated.
    beside = os.path.join(sysconfig.get_path("scripts"), "forebay")
    return os.environ.get("FOREBAY_COMMAND") or (beside if os.path.exists(beside) else "forebay")


def of_job(job: Optional[str]) -> list[str]:
    """The option that selects a job; none where the command is to choose."""
    return [] if job is None else ["--job", job]


def json_object(stream: IO[bytes]) -> dict[str, Any]:
    """The object that the command has printed. Raises ValueError where it is something else."""
    found = json.load(stream)
    if not isinstance(found, dict):
        raise ValueError(f"an object was expected, and it is {type(found).__name__}")
    return found


def run(
    words: Sequence[str],
    read: Callable[[IO[bytes]], T],
    error: type[ForebayError] = ForebayError,
    well: Sequence[int] = (DONE,),
) -> tuple[T, int]:
    """What `read` has made of the command's standard output, and its exit status, which is one of `well`.

    `read` raises ValueError where the answer is no answer. Raises `error` with the command's words, and FileNotFoundError where
    there is no command. If `read` raises anything else, such as KeyboardInterrupt, the command is killed.
    """
    answer: Optional[T] = None
    wrong: Optional[ValueError] = None
    # In a file: a reader of one pipe must not keep the command waiting at the other.
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen([program(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said) as process:
            assert process.stdout is not None
            try:
                answer = read(process.stdout)
            except ValueError as caught:  # pyarrow.ArrowInvalid is one
                wrong = caught
            except BaseException:
                process.kill()
                raise
            # It may have more to say than what was read.
            process.stdout.read()
        said.seek(0)
        text = said.read().decode(errors="replace").strip()
    if process.returncode not in well:
        raise error(text, process.returncode)
    if wrong is not None or answer is None:
        raise error(f"forebay did not answer as expected: {wrong or text}", 0)
    return answer, process.returncode
