"""The client of a wheel without pyarrow and torch: operators answer, a query says which package it lacks, and without a job the command's
words are an error."""

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
for ask in (forebay.status, forebay.landed):
    try:
        ask()
    except forebay.ForebayError as error:
        assert error.status == 1 and "no job is up" in str(error), error
    else:
        raise AssertionError("there is a job")
assert pathlib.Path(forebay.__file__).with_name("py.typed").exists()
try:
    import forebay.torch
except ImportError as error:
    assert error.name == "torch", error
else:
    raise AssertionError("there is a torch")
