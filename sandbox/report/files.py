"""Results as JSON and CSV text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from sandbox.result import Result


def as_json(results: Sequence[Result]) -> str:
    """A list of objects, one a row."""
    return json.dumps([r.to_json() for r in results], indent=1, allow_nan=False) + "\n"


def as_csv(results: Sequence[Result]) -> str:
    """One line a row under one header; nested names are joined with a dot."""
    flat = [_flat(r.to_json()) for r in results]
    names = list(dict.fromkeys(name for row in flat for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
