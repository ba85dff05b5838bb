"""What is to be judged: names become variants, variants become rows, under one plan."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.machine import Machine, detect
from sandbox.problem import Problem
from sandbox.registry import DEVICES, Registry, Variant, read

_PROCESS_BYTES = 100 << 20  # of a worker before it allocates anything


@dataclass(frozen=True)
class Plan:
    """What to judge: the rows (variant, threads), the problems, and how.

    `timeout` is in seconds a stage, compilation excluded.
    """

    rows: Sequence[tuple[Variant, int]]
    problems: Sequence[Problem]
    machine: Machine
    cold: bool = False
    rounds: int = 9
    timeout: float = 60.0


def fits(rows: Sequence[tuple[Variant, int]], problems: Iterable[Problem]) -> None:
    """Raises ValueError where a problem's rows cannot fit into memory; allocates nothing.

    Rows on a GPU keep their arrays there, and find out for themselves.
    """
    rows = [(v, threads) for v, threads in rows if v.device == "cpu"]
    free, cores = detect.available_bytes(), detect.usable_cores()
    for p in problems:
        need = len(rows) * (p.held_bytes + _PROCESS_BYTES) + cores * p.judged_bytes
        if need > free:
            raise ValueError(
                f"{p.shape} {p.dtype} needs {need / 1e9:,.1f} GB for {len(rows)} rows, "
                f"{free / 1e9:,.1f} GB are free: choose a smaller size or fewer rows"
            )


def select(registry: Registry, names: Sequence[str]) -> list[Variant]:
    """The variants that the names stand for, in order, and the references of their devices.

    No name means everything; one step means the ladder up to it; a path means its file's variants.
    Raises ValueError for a name, or the name of a step before, that stands for nothing, BrokenFile
    for a file without variants.
    """
    if len(names) == 1 and (last := registry.get(names[0])):
        chosen = registry.ladder(last)
    else:
        chosen = [v for name in names or ["all"] for v in named(registry, name)]
    for v in chosen:
        if v.after is not None and registry.get(v.after) is None:
            raise ValueError(f"{v.name}: no step is called {v.after!r}: {_hint(registry, v.after)}")
    devices = {v.device for v in chosen}
    chosen += [v for v in registry.variants if v.reference and v.device in devices]
    return [v for v in registry.variants if v in chosen]


def named(registry: Registry, name: str) -> list[Variant]:
    """The variants that one name stands for; a file's join the registry. Raises as `select`."""
    if name in ("all", *DEVICES):
        found = [v for v in registry.variants if name in ("all", v.device)]
        if not found:
            raise ValueError(f"there is no variant for the {name} yet: see --list")
        return found
    if (known := registry.get(name)) is not None:
        return [known]
    if name.endswith(".py") or "/" in name or Path(name).is_file():
        path = Path(name).resolve()
        found = [v for v in registry.variants if v.path.resolve() == path]
        if not found:
            found = read(path)
            registry.add(found)
        return found
    raise ValueError(f"no variant is called {name!r}: {_hint(registry, name)}")


def _hint(registry: Registry, name: str) -> str:
    known = [v.name for v in registry.variants] + ["all", *DEVICES]
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]!r}?" if near else "--list shows what there is"


def expand(variants: Iterable[Variant], threads: int | None) -> list[tuple[Variant, int]]:
    """A serial variant on one thread; what is parallel on `threads`, or on one and on all cores.

    Raises ValueError for more threads than this process has cores.
    """
    cores = detect.usable_cores()
    if threads is not None and not 1 <= threads <= cores:
        raise ValueError(f"--threads {threads}: this process can use 1 to {cores}")
    either = sorted({1, cores}) if threads is None else [threads]
    return [(v, t) for v in variants for t in (either if v.parallel else [1])]
