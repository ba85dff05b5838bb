"""The ceilings of this machine: measured once, stored with their date, measured again on demand."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import filelock
import platformdirs

from sandbox import processes
from sandbox.machine import Machine, Unit, detect
from sandbox.result import Source
from sandbox.roofline import Level


def store() -> Path:
    """Where measured ceilings are kept."""
    return Path(platformdirs.user_cache_dir("matmul-sandbox", appauthor=False)) / "ceilings.json"


def this_machine(
    threads: Iterable[int] = (),
    remeasure: bool = False,
    say: Callable[[str], None] = lambda text: None,
    *,
    levels: bool = False,
    gpu: bool = False,
) -> Machine:
    """This machine, with ceilings for one thread, for all, and for each number in `threads`.

    `levels` asks for the bandwidth of each cache and the fixed cost of each threading layer, `gpu`
    for the units of the CUDA device, where there is one. `say` hears what is measured.

    The store is read and written under a lock, so that two runs do not disturb each other. Where
    it cannot be written the ceilings serve this run alone.
    """
    with _lock():
        return _machine(_known(threads, remeasure, say, _load()))


@contextmanager
def _lock() -> Iterator[None]:
    lock = filelock.FileLock(store().with_suffix(".lock"))
    try:
        store().parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError):  # nothing can be written there, or not be locked
        pass
    try:
        yield
    finally:
        lock.release()


def _load() -> dict[str, Any]:
    """What is stored of this machine; nothing where that is not one of ours from end to end."""
    try:
        data = json.loads(store().read_text(encoding="utf-8"))
        _machine(data)
        return data if data["fingerprint"] == detect.fingerprint() else {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def _save(data: dict[str, Any]) -> None:
    """All of it or nothing, wherever this process is interrupted."""
    new = store().with_suffix(".new")
    with suppress(OSError):
        new.write_text(json.dumps(data, indent=1), encoding="utf-8")
        new.replace(store())


def _known(
    threads: Iterable[int], remeasure: bool, say: Callable[[str], None], data: dict[str, Any]
) -> dict[str, Any]:
    """The stored figures, completed by those that are missing."""
    if remeasure or not data:
        date = datetime.date.today().isoformat()
        data = {"fingerprint": detect.fingerprint(), "date": date, "threads": {}}
    last_level = max(detect.caches().values())[1]
    array_bytes = min(4 * last_level, detect.available_bytes() // 8)
    wanted = {1, detect.usable_cores(), *threads}
    missing = [t for t in sorted(wanted) if str(t) not in data["threads"]]
    if missing:
        say("measuring the ceilings of this machine")
        context = processes.context(detect.usable_cores())
        data["threads"] |= processes.in_child(context, _measure, missing, array_bytes)
        _save(data)
    return data


def _measure(threads: list[int], array_bytes: int) -> dict[str, Any]:
    from sandbox.machine import calibrate  # imports numba, which only a worker may

    return {str(t): calibrate.measure(t, array_bytes) for t in threads}


def _machine(data: dict[str, Any]) -> Machine:
    units = []
    for threads, found in ((int(t), x) for t, x in data["threads"].items()):
        how, (bandwidth, spread) = max(found["bandwidth"].items(), key=lambda item: item[1][0])
        source = Source("measured", f"measured ({how})")
        dram = Level("DRAM", 0, 1, bandwidth, spread, source.bandwidth)
        for arithmetic, (peak, spread) in found["peak"].items():
            unit = Unit(
                name=f"{arithmetic}, {threads} thread{'s' * (threads > 1)}",
                device="cpu",
                arithmetic=arithmetic,
                threads=threads,
                peak_flops=peak,
                levels=_levels(threads, dram, found.get("levels", {})),
                fixed_cost_s=found["t0_s"],
                article_bytes=detect.hierarchy()[-1].total_bytes,
                source=source,
                spread=spread,
            )
            units.append(unit)
    note = f"measured {data['date']}"
    cores = detect.usable_cores()
    return Machine(detect.processor(), cores, detect.installed_cores(), tuple(units), note)


def _levels(threads: int, dram: Level, measured: dict[str, list[float]]) -> tuple[Level, ...]:
    """The boundaries on so many threads, the farthest first.

    What is nearer than a cache is private to the cores that share the next nearer one. All caches
    together are nearer than DRAM: what one of them holds need not be read again for another.
    """
    cores, near = detect.usable_cores(), detect.vector_registers_bytes()
    sharers, chip, levels = 1, cores * near, []
    for c in detect.hierarchy():
        rate = measured.get(f"L{c.level}")
        known = (rate[0], rate[1], "measured (read)") if rate else ()
        levels.append(Level(f"L{c.level}", near, ceil(threads / sharers), *known))
        cores_each = max(1, cores // c.instances)
        near, sharers = near * cores_each // sharers + c.one_bytes, cores_each
        chip += c.total_bytes
    return replace(dram, fast_bytes=chip), *reversed(levels)
