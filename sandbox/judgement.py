"""From what was found out about a row to its Result: the roof over it, its rank."""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat

from sandbox.machine import Machine, Unit
from sandbox.problem import Problem
from sandbox.registry import Variant
from sandbox.result import Bound, Ratio, Result
from sandbox.roofline import (
    binding_level,
    compulsory_bytes,
    intensity,
    level_bounds,
    pebble_bytes,
)


def article_storage(machine: Machine) -> Machine:
    """The machine with the last-level cache alone nearer than DRAM, as the article has it."""

    def alone(unit: Unit) -> Unit:
        dram = replace(unit.levels[0], fast_bytes=unit.article_bytes)
        return replace(unit, levels=(dram, *unit.levels[1:]))

    return replace(machine, units=tuple(map(alone, machine.units)))


def bound(m: Machine, v: Variant, problem: Problem, threads: int, cold: bool) -> Bound | None:
    """The lowest roof over a row, or None where the machine's is unknown.

    A level whose bandwidth is unknown has no roof, nor in a warm run has one near which all the
    data stays from one call to the next.
    """
    unit = m.unit(v.device, v.unit_for(problem.dtype), threads)
    if unit is None:
        return None
    gemm, peak = problem.gemm, unit.peak_flops / v.products
    least = pebble_bytes(gemm, unit.fast_bytes)
    levels = level_bounds(gemm, unit.levels, peak, repeat(0) if cold else _held_bytes(unit))
    lowest = binding_level(levels, peak)
    bound_by = lowest.name if lowest else "compute"
    return Bound(
        ceiling_flops=lowest.ceiling_flops or peak if lowest else peak,
        bound_by=bound_by,
        intensity=intensity(gemm, least),
        pebble_bytes=least,
        compulsory_bytes=compulsory_bytes(gemm),
        source=unit.source,
        spread=next((x.spread for x in unit.levels if x.name == bound_by), unit.spread),
        t0_s=unit.timed_t0_s,
        launch_s=unit.t0_s,
        levels=tuple(levels),
    )


def _held_bytes(unit: Unit) -> list[int]:
    """What outlasts a call on the near side of each level: on a GPU the L2 cache alone."""
    if unit.device == "gpu":
        return [unit.article_bytes, *[0] * len(unit.levels[1:])]
    return [x.memories * x.fast_bytes for x in unit.levels]


def ranked(results: list[Result]) -> list[Result]:
    """Each beside the fastest correct reference of its device and unit, on as many threads."""

    def ratio(r: Result) -> Ratio | None:
        rivals = [
            x
            for x in results
            if x.reference and x.timing and not x.impossible
            if (x.device, x.unit) == (r.device, r.unit)
        ]
        same = [x for x in rivals if x.threads == r.threads]
        if r.timing is None or r.impossible or not rivals:
            return None
        best = min(same or rivals, key=lambda x: x.timing.median_s if x.timing else 0.0)
        assert best.timing
        to = best.variant if same else f"{best.variant}, {best.threads} threads"
        return Ratio(best.timing.median_s / r.timing.median_s, to)

    return [replace(r, ratio=ratio(r)) for r in results]
