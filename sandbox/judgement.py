"""From what was found out about a row to its Result: the roof over it, its rank."""

from __future__ import annotations

from dataclasses import replace

from sandbox.machine import Machine
from sandbox.problem import Problem
from sandbox.registry import Variant
from sandbox.result import Bound, Ratio, Result
from sandbox.roofline import ceiling, compulsory_bytes, intensity, pebble_bytes


def bound(m: Machine, v: Variant, problem: Problem, threads: int, cold: bool) -> Bound | None:
    """The roof over a row, or None where the machine's is unknown.

    Data that stays in a cache has no DRAM roof, and until that cache's bandwidth is known its roof
    is compute.
    """
    unit = m.unit(v.device, v.unit_for(problem.dtype), threads)
    if unit is None:
        return None
    gemm = problem.gemm
    compulsory, least = compulsory_bytes(gemm), pebble_bytes(gemm, unit.fast_bytes)
    flop_per_byte = intensity(gemm, least)
    peak, bound_by = unit.peak_flops / v.products, "compute"
    if cold or compulsory > unit.fast_bytes:
        roof = ceiling(peak, unit.bandwidth, flop_per_byte)
        peak, bound_by = roof.flops, "compute" if roof.bound_by == "compute" else "DRAM"
    return Bound(
        ceiling_flops=peak,
        bound_by=bound_by,
        intensity=flop_per_byte,
        pebble_bytes=least,
        compulsory_bytes=compulsory,
        source=unit.source,
        spread=unit.spread,
    )


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
