"""Results as JSON and CSV text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

from sandbox.result import Result
from sandbox.roofline import Parts


def as_json(results: Sequence[Result]) -> str:
    """A list of objects, one a row."""
    return json.dumps([r.to_json() for r in results], indent=1, allow_nan=False) + "\n"


# Dictionaries, whose names are not known beforehand.
_ANY = {"versions", "traffic.moved_bytes", "traffic.bound_bytes"}


def as_csv(results: Sequence[Result]) -> str:
    """One line a row under one header; nested names are joined with a dot.

    The header does not depend on what was found out, but for the libraries' names in `versions` and
    those of the levels in `levels` and `traffic`.
    """
    flat = [_flat(r.to_json()) for r in results]
    absent = ("problem.strided", "bound.levels.")
    known = [name for name in _names(Result) if name not in _ANY and not name.startswith(absent)]
    known += [f"{which}.{name}" for which in ("parts", "call_parts") for name in _names(Parts)]
    names = dict.fromkeys([*known, *(name for row in flat for name in row)])
    parents = {name.rpartition(".")[0] for name in names} | _ANY
    text = io.StringIO()
    header = [name for name in names if name not in parents]
    writer = csv.DictWriter(text, header, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _names(record: Any) -> Iterator[str]:
    """The header that a record's annotations make."""
    for name, hint in get_type_hints(record).items():
        nested = [kind for kind in (hint, *get_args(hint)) if is_dataclass(kind)]
        yield from (f"{name}.{inner}" for inner in _names(nested[0])) if nested else [name]


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, list):
            value = {item["name"]: item for item in value}
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
