"""Machines that are not this one: a data sheet each, in `sheets/`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox.machine import Machine

if TYPE_CHECKING:
    from sandbox.machine.sheet import Cpu, GpuSheet, Sheet

_FOLDER = Path(__file__).parent / "sheets"


def names() -> list[str]:
    """The machines that `named` knows."""
    return sorted(p.stem for p in _FOLDER.glob("*.toml"))


# Sheets are read where one is asked for: that imports pydantic, which a run does not need.


def named(name: str) -> Machine:
    """The machine of that name.

    Raises ValueError in one line for one that is not in the catalogue, and for a malformed sheet.
    """
    from sandbox.machine import sheet

    return sheet.machine(sheet_of(name))


def sheet_of(name: str) -> Sheet:
    """The sheet of the machine of that name; raises ValueError as `named` does."""
    from sandbox.machine import sheet

    if name not in names():
        raise ValueError(f"unknown machine {name!r}: choose from {', '.join(names())}")
    return sheet.read(_FOLDER / f"{name}.toml")


@cache
def microarchitecture(name: str) -> Cpu | None:
    """The sheet of a CPU microarchitecture, by archspec's name; None where it is unknown."""
    from sandbox.machine import sheet

    sheets = (sheet.read(path) for path in sorted(_FOLDER.glob("*.toml"), reverse=True))
    return next((s.cpu for s in sheets if s.cpu and s.cpu.archspec == name), None)


@cache
def gpu(name: str) -> GpuSheet | None:
    """The sheet of a GPU, by the driver's name; None where it is unknown."""
    from sandbox.machine import sheet

    sheets = (sheet.read(path) for path in sorted(_FOLDER.glob("*.toml")))
    return next((s.gpu for s in sheets if s.gpu and s.gpu.device == name), None)
