"""Traffic that is simulated: the parent's side, which asks workers for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from sandbox import processes
from sandbox.machine import detect
from sandbox.problem import ITEMSIZE, Problem
from sandbox.processes import Lost, Worker
from sandbox.registry import Variant
from sandbox.result import Point, Result, Traffic
from sandbox.roofline import best_schedule, compulsory_bytes, pebble_bytes, work
from sandbox.traffic import simulated_gpu
from sandbox.traffic.levels import BELOW, Cache, boundaries, bounded
from sandbox.traffic.on_gpu import Chip

LONG_S = 60.0  # what takes longer has to be asked for
OPTIMAL_UP_TO, OPTIMAL_SIZES = 128, 12  # optimal replacement keeps the whole trace
_WORDS_PER_S = 1e7  # of a trace through two passes of stack distances, on a slow core
_WORDS_PER_FLOP = 1.0  # a multiply-add that loads both of its operands, as in `naive`


def estimated_s(problems: Iterable[Problem], variants: int) -> float:
    """Seconds that tracing so many variants takes, for kernels that load each operand each time."""
    return variants * sum(work(p.gemm) for p in problems) * _WORDS_PER_FLOP / _WORDS_PER_S


def powers_of_two(problem: Problem) -> list[int]:
    """Cache sizes from 1 KiB to the first in which the problem fits."""
    most = compulsory_bytes(problem.gemm)
    return [1 << x for x in range(10, max(11, most.bit_length() + 1))]


def points(
    v: Variant,
    problem: Problem,
    cache_bytes: Sequence[int],
    chip: Chip | None = None,
    limit_s: float = inf,
) -> list[Point] | str:
    """What the variant moves through caches of these sizes, or in words why that is not known.

    On a GPU they are its L2, behind the SMs of `chip`; a launch that takes the interpreter longer
    than `limit_s` is not traced. Raises Lost where it crashes or fails.
    """
    small = max(problem.m, problem.n, problem.k) <= OPTIMAL_UP_TO
    optimal, word = OPTIMAL_SIZES if small else 0, ITEMSIZE[problem.dtype]
    if v.device == "gpu":
        found = simulated_gpu.curves(v, problem, chip, limit_s, word, cache_bytes)
    else:
        found = _ask(v, problem, "curves", word, cache_bytes, optimal)
    if isinstance(found, str):
        return found
    registers, curves = found
    gemm = problem.gemm
    traced = [
        Point(
            variant=v.name,
            problem=problem,
            granularity=granularity,
            replacement=replacement,
            cache_bytes=size,
            near_bytes=(near := size + registers),
            moved_bytes=moved,
            bound_bytes=pebble_bytes(gemm, near),
            best_schedule_bytes=best_schedule(gemm, near).moved_bytes,
        )
        for (granularity, replacement), all_moved in curves.items()
        for size, moved in zip(cache_bytes, all_moved, strict=False)
    ]
    return BELOW if any(x.moved_bytes < x.bound_bytes for x in traced) else traced


def simulated(
    results: Iterable[Result],
    variants: Iterable[Variant],
    caches: Sequence[Cache],
    chip: Chip | None,
    limit_s: float,
    say: Callable[[str], None],
) -> list[Result]:
    """The results with what one call moves, traced once for each variant: through the caches, or
    on a GPU through the L2 of `chip`, where no launch takes the interpreter over `limit_s`."""
    by_name = {v.name: v for v in variants}
    known: dict[str, Traffic] = {}

    def one(r: Result) -> Result:
        if r.verdict is None or not r.verdict.ok:
            return r
        if r.variant not in known:
            say(f"{r.problem.shape}: tracing {r.variant}")
            v = by_name[r.variant]
            if v.device == "gpu":
                known[r.variant] = simulated_gpu.traffic(v, r.problem, chip, limit_s)
            else:
                known[r.variant] = traffic(v, r.problem, caches)
        return replace(r, traffic=known[r.variant])

    return [one(r) for r in results]


def traffic(v: Variant, problem: Problem, caches: Sequence[Cache]) -> Traffic:
    """What one call moves through the caches, or in words why that is not known."""
    try:
        found = _ask(v, problem, "through", caches)
    except Lost as why:
        found = str(why)
    if isinstance(found, str):
        return Traffic({}, {}, found)
    registers, moved = found
    near = dict(boundaries(registers, caches))
    bound = {name: pebble_bytes(problem.gemm, size) for name, size in near.items()}
    return bounded(dict(zip(near, moved, strict=True)), bound)


def _ask(v: Variant, problem: Problem, what: str, *args: object) -> Any:
    cores = detect.usable_cores()
    worker = Worker(processes.context(cores), v, 1, cores)
    try:
        worker.limit_bytes = 16 * (problem.held_bytes + processes.SPARE_BYTES)
        return worker.ask("tracing", inf, "trace", what, problem, *args)
    finally:
        worker.end()
