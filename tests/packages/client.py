"""The client of a wheel without pyarrow: operators answer, and a query says which package it lacks."""

import pathlib
import tempfile

import forebay

with tempfile.TemporaryDirectory() as place:
    table = pathlib.Path(place, "t.csv")
    table.write_text("x\n1\n2\n")
    assert forebay.operators("stats", table)["columns"][0]["sum"] == 3
try:
    forebay.query("SELECT 1")
except ImportError as error:
    assert "pip install 'forebay[query]'" in str(error), error
else:
    raise AssertionError("a query without pyarrow does not fail")
