"""The only module that reads a clock: bursts of timed calls, rounds of bursts, their statistics."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sandbox.result import Clocks, Timing

# Bound here, before any variant is imported: one that patches `time` changes nothing.
clock = time.perf_counter
cpu_clock = time.thread_time  # what the calling thread has spent running

BURST_S = 0.015  # seconds of timed calls in one visit
_WARM_S = 0.01  # a cold thread pool or cache costs milliseconds: calls that are made and forgotten
_SAMPLE_S = 2e-5  # the least that is timed at once: hundreds of times the clock's own cost
_AGAIN = 5  # calls on numbers that did not change, at the most
_LEAST_VISITS = 3  # that try a call again: fewer prove nothing on a busy machine
_LEAST_WALLS = 6  # and fewer late answers, of a machine that is busy throughout
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
    """What one visit found, in seconds: the median call; the best call on numbers that just
    changed, and the best on the same again (None where not tried); the whole visit by this
    process's clock.

    On a GPU call_s is the kernel's time by the device's clock, host_s the same by the host's,
    eager_s that of the call as its caller sees it, `clocks` what the device did meanwhile, and
    `uncaptured` why no graph is replayed.
    """

    call_s: float
    fresh_s: float
    again_s: float | None
    total_s: float
    eager_s: float | None = None
    host_s: float | None = None
    clocks: Clocks | None = None
    uncaptured: str | None = None


def plan(call: Callable[[], None], change: Callable[[bool], None], cold: bool) -> Plan:
    """Calibrate the repetitions of a burst to the clock and to the time of a visit."""
    taken: list[float] = []
    while len(taken) < 3 and sum(taken) < _LONG_S:
        change(True)  # else what remembers seems fast, and is asked the same more often
        start = clock()
        call()
        taken.append(clock() - start)
    seconds = min(taken)
    if seconds < _SAMPLE_S:  # too short for one reading of the clock
        start = clock()
        for _ in range(200):
            call()
        seconds = max((clock() - start) / 200, 1e-9)
    repeats = 1 if cold else max(1, math.ceil(_SAMPLE_S / seconds))
    samples = min(max(1, round(BURST_S / (seconds * repeats))), 500)
    return Plan(samples, repeats, 0.0 if seconds > _LONG_S else _WARM_S)


def burst(
    call: Callable[[], None],
    change: Callable[[bool], None],
    flush: Callable[[], None] | None,
    plan: Plan,
    again: bool,
) -> Burst:
    """Make some calls and forget them, then time `plan.samples` times `plan.repeats` calls.

    `change(True)` makes the next call a new problem, `change(False)` does the same work and leaves
    the numbers; `flush` empties the caches; none is timed. `again` asks for the time of calls on
    numbers that did not change, too.
    """
    begin = clock()

    def timed(repeats: int, new: bool = True) -> float:
        change(new)
        if flush:
            flush()
        start = clock()
        for _ in range(repeats):
            call()
        return (clock() - start) / repeats

    while clock() - begin < plan.warm_s:
        call()
    samples = [timed(plan.repeats) for _ in range(plan.samples)]
    fresh, repeated = samples, None
    if again:  # the best of a few of each, since noise only ever adds
        few = range(min(plan.samples, _AGAIN))
        if plan.repeats > 1:
            fresh = [timed(1) for _ in few]
        repeated = min(timed(1, new=False) for _ in few)
    return Burst(statistics.median(samples), min(fresh), repeated, clock() - begin)


def remembers(bursts: Sequence[Burst]) -> bool:
    """Is the same call made again much faster than a call on new numbers? Then it is no product.

    It is in every visit, and than the best on new numbers of all: noise only ever adds, and where
    a pool of threads waits for a core, one call in many is fast. Calls as short as the clock's
    noise prove nothing.
    """
    fresh = min(b.fresh_s for b in bursts)
    repeated = [b.again_s for b in bursts if b.again_s is not None]
    if len(repeated) < (1 if fresh > _LONG_S else _LEAST_VISITS):
        return False
    return fresh > 2 * max(repeated) and fresh - max(repeated) > 5e-5


def clocks_disagree(walls: Sequence[float], bursts: Sequence[Burst]) -> bool:
    """Does the parent's clock tell another story than the worker's? `walls` holds its seconds.

    A visit lies within what the parent sees of it. A busy machine makes some answers late; a clock
    that runs slow makes all.
    """
    pairs = [(w, b.total_s) for w, b in zip(walls, bursts, strict=True)]
    longer = any(total > wall + 1e-3 for wall, total in pairs)
    late = [0.9 * wall - total for wall, total in pairs]
    return longer or (len(late) >= _LEAST_WALLS and min(late) > 5e-3)


def devices_disagree(bursts: Sequence[Burst]) -> bool:
    """Does the device's clock tell less than half of what the host's does?

    Many replays in a row leave the host little to add; the best of all visits is compared.
    """
    pairs = [(b.call_s, b.host_s) for b in bursts if b.host_s is not None]
    return bool(pairs) and 2 * max(x for x, _ in pairs) < min(y for _, y in pairs)


def timing(seconds: Sequence[float]) -> Timing:
    """The median of the rounds, with the order statistics that bracket it in 95 of 100 cases.

    Distribution-free: the k-th smallest and k-th largest of n, with the largest k for which
    2 P(Binomial(n, 1/2) < k) <= 0.05; below 6 rounds the extremes, which cover less.
    """
    ranked = sorted(seconds)
    n, k = len(ranked), 0
    tail = 1
    while 40 * (tail + math.comb(n, k + 1)) <= 2**n:  # exact, however many rounds
        k += 1
        tail += math.comb(n, k)
    return Timing(statistics.median(ranked), ranked[k], ranked[n - 1 - k], n)
