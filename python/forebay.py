"""Queries of Forebay from Python: rows as Arrow tables, the operators' answers as they are.

    import forebay
    table = forebay.query("SELECT day, avg(flow) AS flow FROM 'log.csv' GROUP BY day")
    answer = forebay.operators("stats,entropy", "log.csv")

The command `forebay` does the work, in a job where the data lie: that beside this Python, else that in PATH; FOREBAY_COMMAND names
another one. Tables need pyarrow: pip install 'forebay[query]'.
"""

import json
import os
import subprocess
import sysconfig
import tempfile

__all__ = ["QueryError", "operators", "query"]


class QueryError(Exception):
    """A query failed. Its text is what the command said, `status` how it ended."""

    def __init__(self, said, status):
        super().__init__(said or f"forebay ended with status {status} and said nothing")
        self.status = status


def query(statement, *options, tables=None):
    """The rows of a statement as a `pyarrow.Table`.

    `tables` gives paths or patterns names: {"t": "/data/*.parquet"}. `options` are those of `forebay query`:
    "--where", "data", "--no-newlines". Relative paths are below the working directory. Raises QueryError where the
    statement or a file is wrong, FileNotFoundError where there is no command, and ImportError where there is no pyarrow.
    """
    pyarrow = _pyarrow()
    named = [word for name, path in (tables or {}).items() for word in ("--table", f"{name}={os.fspath(path)}")]

    def table(stream):
        # A statement that fails says nothing here.
        first = stream.peek(1)
        return pyarrow.ipc.open_stream(stream).read_all() if first else None

    return _run(["--format", "arrow", *named, *options, "--", statement], table)


def operators(names, *files, options=()):
    """What operators come to over files, as `forebay query NAMES FILE... --json` has it: a dict.

    `names`: "stats", "stats,entropy". Raises as `query` does.
    """
    return _run(["--json", *options, "--", names, *map(os.fspath, files)], json.load)


def _pyarrow():
    """pyarrow, which nothing but a table needs."""
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise ImportError("a query's rows are tables of pyarrow, which is not here: pip install 'forebay[query]'") from error
    return pyarrow


def _command():
    # An environment need not be activated.
    beside = os.path.join(sysconfig.get_path("scripts"), "forebay")
    return os.environ.get("FOREBAY_COMMAND") or (beside if os.path.exists(beside) else "forebay")


def _run(words, read):
    command = [_command(), "query", *words]
    # In a file: who reads one pipe must not keep the command waiting at the other.
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said) as process:
            try:
                answer, wrong = read(process.stdout), None
            except ValueError as error:  # pyarrow.ArrowInvalid is one
                answer, wrong = None, error
            except BaseException:
                process.kill()
                raise
            # It may have more to say than what was read.
            process.stdout.read()
        said.seek(0)
        text = said.read().decode(errors="replace").strip()
    if process.returncode != 0:
        raise QueryError(text, process.returncode)
    if wrong is not None or answer is None:
        raise QueryError(f"forebay did not answer as expected: {wrong or text}", 0)
    return answer
