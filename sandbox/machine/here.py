"""The ceilings of this machine: measured once, stored with their date, measured again on demand."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import filelock
import platformdirs

from sandbox import processes
from sandbox.machine import Machine, assemble, detect

_LAYERS = {"omp", "tbb", "workqueue"}
_BUSY = " on a busy machine, perhaps too slow and not kept: run again when nothing else runs"

Say = Callable[[str], None]


def store() -> Path:
    """Where measured ceilings are kept."""
    return Path(platformdirs.user_cache_dir("matmul-sandbox", appauthor=False)) / "ceilings.json"


def this_machine(
    threads: Iterable[int] = (),
    remeasure: bool = False,
    say: Say = lambda text: None,
    *,
    levels: bool = False,
    gpu: bool = False,
) -> Machine:
    """This machine, with ceilings for one thread, for all, and for each number in `threads`.

    `levels` asks for the bandwidth of each cache and the fixed cost of each threading layer, `gpu`
    for the units of the CUDA device, where there is one. `say` hears what is measured.

    The store is read and written under a lock, so that two runs do not disturb each other. Where
    it cannot be written the ceilings serve this run alone, as do those of a busy machine.
    """
    with _lock():
        stored = _load()
        data = _with_cpu(stored, threads, levels, remeasure, say)
        stored = stored if data["date"].endswith(_BUSY) else data
        return assemble.machine(data, _gpu(stored, remeasure, say) if gpu else None)


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
        data: dict[str, Any] = json.loads(store().read_text(encoding="utf-8"))
        for found in data["gpus"].values():
            assemble.machine(data, found)
        assemble.machine(data)
        return data if data["fingerprint"] == detect.fingerprint() else {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def _save(data: dict[str, Any]) -> None:
    """All of it or nothing, wherever this process is interrupted."""
    new = store().with_suffix(".new")
    with suppress(OSError):
        new.write_text(json.dumps(data, indent=1), encoding="utf-8")
        new.replace(store())


def _today() -> str:
    return datetime.date.today().isoformat()


def _nothing() -> dict[str, Any]:
    return {"fingerprint": detect.fingerprint(), "date": _today(), "threads": {}, "gpus": {}}


def _with_cpu(
    data: dict[str, Any], threads: Iterable[int], levels: bool, remeasure: bool, say: Say
) -> dict[str, Any]:
    """The stored figures, completed by those that are missing; kept unless the machine was busy."""
    if remeasure or not data:
        data = _nothing() | {"gpus": data.get("gpus", {})}
    known = data["threads"]
    wanted = {1, detect.usable_cores(), *threads}
    missing = sorted(t for t in wanted if str(t) not in known)
    flat = sorted(t for t in wanted if levels and "levels" not in known.get(str(t), {}))
    if not missing and not flat:
        return data
    say("measuring the ceilings of this machine")
    context = processes.context(detect.usable_cores())
    busy = False
    if missing:
        size = min(4 * detect.hierarchy()[-1].total_bytes, detect.available_bytes() // 8)
        found = processes.in_child(context, _measure, missing, size)
        busy = any(facts["busy"] for facts in found.values())
        known = known | found
    if flat:
        first = processes.in_child(context, _measure_levels, flat)
        costs = {str(t): dict(known[str(t)]["t0_s"]) for t in flat}
        for layer in sorted(_LAYERS - {x for modes in costs.values() for x in modes}):
            for t, facts in processes.in_child(context, _measure_layer, layer, flat).items():
                costs[t] |= facts["t0_s"]
                busy = busy or facts["busy"]
        again = processes.in_child(context, _measure_levels, flat)
        busy = busy or any(visit[t]["busy"] for visit in (first, again) for t in costs)
        more = {t: {"levels": _both(first[t], again[t]), "t0_s": costs[t]} for t in costs}
        known = known | {t: known[t] | facts for t, facts in more.items()}
    data = data | {"threads": known}
    if busy:
        return data | {"date": data["date"] + _BUSY}
    _save(data)
    return data


def _both(first: dict[str, Any], again: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Of two visits the better rates; by how much the others fall short of them is doubt, too.

    A core's clock and what its neighbours do to its caches last for seconds, longer than a visit.
    """
    found = {}
    for level, (rate, spread) in first["levels"].items():
        other, doubt = again["levels"][level]
        best = max(rate, other)
        found[level] = best, max(spread, doubt, 1 - min(rate, other) / best)
    return found


def _gpu(stored: dict[str, Any], remeasure: bool, say: Say) -> dict[str, Any] | None:
    """What is stored of the CUDA device, or measured now; None where there is none that works."""
    stored = stored or _nothing()
    say("looking for a GPU, and measuring its ceilings unless they are known")
    context = processes.context(detect.usable_cores())
    try:
        found: dict[str, Any] | None = processes.in_child(
            context, _measure_gpu, {} if remeasure else stored["gpus"]
        )
    except RuntimeError as error:  # a driver or a compiler that takes its process along
        say(f"the GPU's ceilings are unknown: {error}")
        return None
    if found and "date" not in found:
        found["date"] = _today() + _BUSY * found["busy"]
        if not found["busy"]:
            _save(stored | {"gpus": stored["gpus"] | {found["device"]["uuid"]: found}})
    return found


# What runs in a child: it imports what only a worker may.


def _measure(threads: list[int], array_bytes: int) -> dict[str, Any]:
    from sandbox.machine import calibrate

    return {str(t): calibrate.measure(t, array_bytes) for t in threads}


def _measure_levels(threads: list[int]) -> dict[str, Any]:
    from sandbox.machine import calibrate

    return {str(t): calibrate.levels(t, detect.array_sizes(t)) for t in threads}


def _measure_layer(layer: str, threads: list[int]) -> dict[str, Any]:
    """Its fork and join; nothing where it is not installed. A process has one layer for good."""
    import numba

    numba.config.THREADING_LAYER = layer
    with suppress(ImportError, ValueError):
        from sandbox.machine import calibrate

        return {str(t): calibrate.fixed_cost(t) for t in threads if t > 1}
    return {}


def _measure_gpu(known: dict[str, Any]) -> dict[str, Any] | None:
    from sandbox.machine import device

    gpu = device.gpu()
    if gpu is None:
        return None
    stored = known.get(gpu.uuid)
    if stored and stored["device"] == asdict(gpu):
        return dict(stored)
    from sandbox.machine import gpu_calibrate

    return gpu_calibrate.measure(gpu)
