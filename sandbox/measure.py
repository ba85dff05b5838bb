"""The only module that reads a clock: bursts of timed calls, rounds of bursts, their statistics."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sandbox.result import Timing

# Bound here, before any variant is imported: one that patches `time` changes nothing.
clock = time.perf_counter

BURST_S = 0.02  # seconds of timed calls in one visit
_WARM_S = 0.01  # a cold thread pool or cache costs milliseconds: calls that are made and forgotten
_SAMPLE_S = 2e-5  # the least that is timed at once: hundreds of times the clock's own cost
_LONG_S = 0.1  # a call this long hides what is cold at its start


@dataclass(frozen=True)
class Plan:
    """How a row is visited: `samples` times in a burst, `repeats` calls are timed together.

    `warm_s` is for how long calls are made and forgotten first.
    """

    samples: int
    repeats: int
    warm_s: float


@dataclass(frozen=True)
class Burst:
    """What one visit found, in seconds: the median call; a call on numbers that just changed, and
    the same call again (None where not tried); the whole visit by this process's clock."""

    call_s: float
    fresh_s: float
    again_s: float | None
    total_s: float


def plan(call: Callable[[], None], cold: bool) -> Plan:
    """Calibrate the repetitions of a burst to the clock and to the time of a visit."""
    start = clock()
    calls = 0
    while calls < 3 and clock() - start < _LONG_S:
        call()
        calls += 1
    seconds = (clock() - start) / calls
    if seconds < _SAMPLE_S:  # too short for one reading of the clock
        start = clock()
        for _ in range(200):
            call()
        seconds = (clock() - start) / 200
    repeats = 1 if cold else max(1, math.ceil(_SAMPLE_S / seconds))
    samples = min(max(1, round(BURST_S / (seconds * repeats))), 500)
    return Plan(samples, repeats, 0.0 if seconds > _LONG_S else _WARM_S)


def burst(
    call: Callable[[], None],
    change: Callable[[], None],
    flush: Callable[[], None] | None,
    plan: Plan,
    again: bool,
) -> Burst:
    """Make some calls and forget them, then time `plan.samples` times `plan.repeats` calls.

    `change` makes the next call a new problem, `flush` empties the caches; neither is timed.
    `again` asks for the time of a call on numbers that did not change, too.
    """
    begin = clock()

    def timed(repeats: int) -> float:
        if flush:
            flush()
        start = clock()
        for _ in range(repeats):
            call()
        return (clock() - start) / repeats

    change()
    while clock() - begin < plan.warm_s:
        call()
    samples = []
    for _ in range(plan.samples):
        change()
        samples.append(timed(plan.repeats))
    fresh = samples[-1]
    if plan.repeats > 1:
        change()
        fresh = timed(1)
    repeated = timed(1) if again else None
    return Burst(statistics.median(samples), fresh, repeated, clock() - begin)


def remembers(bursts: Sequence[Burst]) -> bool:
    """Is the same call made again much faster than a call on new numbers? Then it is no product.

    Bursts in which a call takes as long as the clock's noise prove nothing.
    """
    pairs = [(b.fresh_s, b.again_s) for b in bursts if b.again_s is not None]
    fresh, again = (statistics.median(x) for x in zip(*pairs, strict=True))
    return bool(fresh > 2 * again and fresh - again > 5e-5)


def clocks_disagree(walls: Sequence[float], bursts: Sequence[Burst]) -> bool:
    """Does the parent's clock tell another story than the worker's? `walls` holds its seconds."""
    differences = [abs(w - b.total_s) - 0.1 * w for w, b in zip(walls, bursts, strict=True)]
    return statistics.median(differences) > 5e-3


def timing(seconds: Sequence[float]) -> Timing:
    """The median of the rounds, with the order statistics that bracket it in 95 of 100 cases.

    Distribution-free: the k-th smallest and k-th largest of n, with the largest k for which
    2 P(Binomial(n, 1/2) < k) <= 0.05; below 6 rounds the extremes, which cover less.
    """
    ranked = sorted(seconds)
    n, k = len(ranked), 0
    tail = 1
    while 2 * (tail + math.comb(n, k + 1)) <= 0.05 * 2**n:
        k += 1
        tail += math.comb(n, k)
    return Timing(statistics.median(ranked), ranked[k], ranked[n - 1 - k], n)
