"""Queries: rows as Arrow tables, the operators' answers as they are."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Optional

from . import _command
from ._command import AnyPath, ForebayError

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped, unused-ignore]


class QueryError(ForebayError):
    """A query failed. Its text is what the command said, `status` how it ended."""


def query(statement: str, *options: str, tables: Optional[Mapping[str, AnyPath]] = None) -> pyarrow.Table:
    """The rows of a statement as a `pyarrow.Table`.

    `tables` gives paths or patterns names: {"t": "/data/*.parquet"}. `options` are those of `forebay query`:
    "--where", "data", "--no-newlines". Relative paths are below the working directory. Raises QueryError where the
    statement or a file is wrong, FileNotFoundError where there is no command, and ImportError where there is no pyarrow.
    """
    arrow = _pyarrow()
    named = [word for name, path in (tables or {}).items() for word in ("--table", f"{name}={os.fsdecode(path)}")]

    def table(stream: IO[bytes]) -> Any:
        # A statement that fails says nothing here.
        first = stream.peek(1)  # type: ignore[attr-defined]
        return arrow.ipc.open_stream(stream).read_all() if first else None

    return _run(["--format", "arrow", *named, *options, "--", statement], table)


def operators(names: str, *files: AnyPath, options: Sequence[str] = ()) -> dict[str, Any]:
    """What operators come to over files, as `forebay query NAMES FILE... --json` has it: a dict.

    `names`: "stats", "stats,entropy". Raises as `query` does.
    """
    answer: dict[str, Any] = _run(["--json", *options, "--", names, *map(os.fsdecode, files)], json.load)
    return answer


def _pyarrow() -> Any:
    """pyarrow, which nothing but a table needs."""
    try:
        import pyarrow  # type: ignore[import-untyped, unused-ignore]
        import pyarrow.ipc  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise ImportError("a query's rows are tables of pyarrow, which is not here: pip install 'forebay[query]'") from error
    return pyarrow


def _run(words: Sequence[str], read: Any) -> Any:
    return _command.run(["query", *words], read, QueryError)[0]
