"""The client of Forebay for Python: the state of a job, files that have landed, warm-up, queries, and PyTorch.

    import forebay
    forebay.status().verdict.state                                      # "healthy"
    forebay.landed("/ckpt/step-100.pt").landed                          # True once all of it is in the backing file system
    table = forebay.query("SELECT day, avg(flow) AS flow FROM 'log.csv' GROUP BY day")
    answer = forebay.operators("stats,entropy", "log.csv")

The command `forebay` does the work: that beside this Python, else that in PATH; FOREBAY_COMMAND names another one. Without a
command every function raises FileNotFoundError. If the command fails, functions raise `ForebayError`, queries `QueryError`.

Tables need pyarrow (pip install 'forebay[query]'), and `forebay.torch` needs torch. This module imports neither.
"""

from ._command import ForebayError
from ._landed import Landed, LandedFile, landed
from ._query import QueryError, operators, query
from ._status import Backing, Burst, Cache, CacheUse, Job, Node, Overlay, Status, Totals, Trouble, Verdict, status
from ._warmup import FailedFile, WarmupProgress, warmup

__all__ = [
    "Backing",
    "Burst",
    "Cache",
    "CacheUse",
    "FailedFile",
    "ForebayError",
    "Job",
    "Landed",
    "LandedFile",
    "Node",
    "Overlay",
    "QueryError",
    "Status",
    "Totals",
    "Trouble",
    "Verdict",
    "WarmupProgress",
    "landed",
    "operators",
    "query",
    "status",
    "warmup",
]
