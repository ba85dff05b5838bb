"""Machines that are not this one: a data sheet each, in `sheets/`."""

from __future__ import annotations

from pathlib import Path

from sandbox.machine import Machine

_FOLDER = Path(__file__).parent / "sheets"


def names() -> list[str]:
    """The machines that `named` knows."""
    return sorted(p.stem for p in _FOLDER.glob("*.toml"))


def named(name: str) -> Machine:
    """The machine of that name.

    Raises ValueError in one line for one that is not in the catalogue, and for a malformed sheet.
    """
    from sandbox.machine import sheet  # imports pydantic, which only they need who name a machine

    if name not in names():
        raise ValueError(f"unknown machine {name!r}: choose from {', '.join(names())}")
    return sheet.machine(sheet.read(_FOLDER / f"{name}.toml"))
