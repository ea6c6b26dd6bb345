"""Dataclasses of JSON objects. Fields that a class does not have are left out, and those that are missing have their defaults, so that a
client goes on with commands that are older or newer than itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Callable, TypeVar

T = TypeVar("T")


def of(kind: type[T], raw: Any) -> T:
    """An instance of a dataclass whose fields all have defaults, but `raw`, which is the object itself.

    `null` counts as missing. A field with `part` in its metadata is made by that function.
    """
    raw = raw if isinstance(raw, Mapping) else {}
    given: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        key = field.metadata.get("key", field.name)
        if field.name == "raw":
            given["raw"] = raw
        elif raw.get(key) is not None:
            part: Callable[[Any], Any] = field.metadata.get("part", _as_it_is)
            given[field.name] = part(raw[key])
    return kind(**given)


def part(kind: type[T]) -> dict[str, Any]:
    """Metadata of a field that is an object."""
    return {"part": lambda raw: of(kind, raw)}


def parts(kind: type[T]) -> dict[str, Any]:
    """Metadata of a field that is a list of objects: a tuple."""
    return {"part": lambda raw: tuple(of(kind, each) for each in raw)}


def _as_it_is(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
