"""Traffic that is simulated on a GPU: the parent's side, which asks child processes for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sandbox import processes
from sandbox.compiled import inspect
from sandbox.compiled.occupancy import ARCHITECTURES
from sandbox.machine import detect
from sandbox.problem import Problem
from sandbox.processes import Lost
from sandbox.registry import Variant
from sandbox.result import Traffic
from sandbox.roofline import pebble_bytes
from sandbox.traffic import on_gpu
from sandbox.traffic.levels import bounded
from sandbox.traffic.on_gpu import Chip, Traced

_CAPABILITY = 90  # kernels are compiled for it, to see how many of their programs an SM holds


def curves(
    v: Variant,
    problem: Problem,
    chip: Chip | None,
    limit_s: float,
    word_bytes: int,
    cache_bytes: Sequence[int],
) -> Traced | str:
    """As `on_gpu.curves`. Raises Lost where the variant fails."""
    return _ask(on_gpu.curves, v, problem, chip, limit_s, word_bytes, cache_bytes)


def traffic(v: Variant, problem: Problem, chip: Chip | None, limit_s: float) -> Traffic:
    """What one call moves between the SMs and L2, and between L2 and DRAM, beside the least."""
    try:
        found = _ask(on_gpu.through, v, problem, chip, limit_s)
    except Lost as why:
        found = str(why)
    if isinstance(found, str) or chip is None:
        return Traffic({}, {}, str(found))
    near, moved = found
    sms = pebble_bytes(problem.gemm, chip.near_bytes, chip.sms)
    bound = {"L2": sms, "DRAM": pebble_bytes(problem.gemm, chip.l2_bytes + near)}
    return bounded(dict(zip(bound, moved, strict=True)), bound)


def _ask(
    what: Any, v: Variant, problem: Problem, chip: Chip | None, limit_s: float, *args: object
) -> Traced | str:
    if chip is None:
        return "there is no GPU here to simulate: name one, as --machine h200"
    context = processes.context(detect.usable_cores())
    codes = processes.in_child(context, inspect, v, problem, f"sm_{_CAPABILITY}")
    if isinstance(codes, str):
        return codes
    warps = ARCHITECTURES[_CAPABILITY].warps
    per_sm = {c.kernel: round(c.occupancy * warps / c.warps) for c in codes}
    found: Traced | str = processes.in_child(
        context, what, v, problem, chip, per_sm, limit_s, *args
    )
    return found
