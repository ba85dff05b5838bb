"""From what was measured, as it is stored, to the machine with its units and their levels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import ceil
from typing import Any

from sandbox.machine import Gpu, Machine, Unit, detect
from sandbox.result import Source
from sandbox.roofline import Level


def machine(data: dict[str, Any], on_gpu: dict[str, Any] | None = None) -> Machine:
    """This machine from what is stored of its processor, and of its GPU.

    Raises LookupError, TypeError, ValueError or AttributeError where that has not our form.
    """
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
                **_fixed_cost(found),
                article_bytes=detect.hierarchy()[-1].total_bytes,
                source=source,
                spread=spread,
            )
            units.append(unit)
    note = f"measured {data['date']}"
    gpu = None
    if on_gpu:
        gpu = Gpu(**on_gpu["device"])
        units += _gpu_units(gpu, on_gpu)
        note += f", the GPU's {on_gpu['date']}" * (on_gpu["date"] != data["date"])
    cores = detect.usable_cores()
    return Machine(detect.processor(), cores, detect.installed_cores(), tuple(units), note, gpu)


def _fixed_cost(found: dict[str, Any]) -> dict[str, Any]:
    """Seconds and spread, each by mode."""
    modes = found["t0_s"].items()
    return {
        "fixed_cost_s": {mode: seconds for mode, (seconds, _) in modes},
        "fixed_cost_spread": {mode: spread for mode, (_, spread) in modes},
    }


def _gpu_units(gpu: Gpu, found: dict[str, Any]) -> list[Unit]:
    near = gpu.l1_bytes + gpu.register_bytes
    sizes = {
        "DRAM": (gpu.l2_bytes + gpu.sms * near, 1),
        "L2": (near, gpu.sms),
        "shared": (gpu.register_bytes, gpu.sms),
    }
    levels = []
    for name, (fast_bytes, memories) in sizes.items():
        how, rate = max(found["bandwidth"][name].items(), key=lambda item: item[1][0])
        levels.append(Level(name, fast_bytes, memories, rate[0], rate[1], f"measured ({how})"))
    return [
        Unit(
            name=arithmetic,
            device="gpu",
            arithmetic=arithmetic,
            threads=1,
            peak_flops=rate[0],
            levels=lifted(levels),
            **_fixed_cost(found),
            article_bytes=gpu.l2_bytes,
            source=Source("measured", levels[0].source),
            spread=rate[1],
            clock_hz=found["clock_hz"].get(arithmetic),
        )
        for arithmetic, rate in found["peak"].items()
    ]


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
    return lifted((replace(dram, fast_bytes=chip), *reversed(levels)))


def lifted(levels: Iterable[Level]) -> tuple[Level, ...]:
    """From the farthest: no level slower than one behind it, whose bytes pass through it."""
    found: list[Level] = []
    fastest = None
    for level in levels:
        if fastest and level.bandwidth and level.bandwidth < (fastest.bandwidth or 0.0):
            source = f"{level.source}, as fast as {fastest.name} at least"
            level = replace(
                level, bandwidth=fastest.bandwidth, spread=fastest.spread, source=source
            )
        if level.bandwidth:
            fastest = level
        found.append(level)
    return tuple(found)
