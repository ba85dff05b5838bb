"""Machines that are not this one: a data file each, beside this module."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from sandbox.machine import Machine, Unit
from sandbox.result import Source
from sandbox.roofline import Level

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The machines that `named` knows."""
    return sorted(p.stem for p in _FOLDER.glob("*.toml"))


def named(name: str) -> Machine:
    """The machine of that name; raises ValueError for one that is not in the catalogue."""
    if name not in names():
        raise ValueError(f"unknown machine {name!r}: choose from {', '.join(names())}")
    data = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    units = tuple(_unit(u) for u in data["unit"])
    return Machine(
        data["name"],
        data["cores"],
        data["cores"],
        units,
        "from the data sheet of another machine, not measured",
    )


def _unit(u: dict[str, Any]) -> Unit:
    near = ("dram_near_bytes", "l1_near_bytes", "l1_memories", "bandwidth", "t0_s")
    dram, l1, memories, bandwidth, t0_s = (u.pop(key) for key in near)
    levels = Level("DRAM", dram, 1, bandwidth), Level("L2", l1, memories)
    u["article_bytes"] = int(u["article_bytes"])
    mode = {"call" if u["device"] == "cpu" else "launch": t0_s}
    return Unit(**u, levels=levels, fixed_cost_s=mode, source=Source("datasheet", "datasheet"))
