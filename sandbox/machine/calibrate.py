"""What this machine reaches: multiply-adds, reads at every level, empty calls. For workers only."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit, prange

from sandbox.machine.kernels import fma_kernel, read_kernel
from sandbox.measure import clock, cpu_clock

_ROUNDS = 20
_ROUND_S = 0.005  # less than a time slice: between two others' a round is undisturbed
_QUIET = 5  # rounds make a median
_CALLS = 10  # for one look at the clock
_DOUBT = 0.01  # at least: clocks drift by so much between runs
_PATIENCE_S = 3.0  # with slow memory, and with other work that disturbs every round
_UNDISTURBED = 0.9  # of the time of all threads, spent running


@njit("float64(float64[::1])", nogil=True, fastmath=True)
def _read(x):
    total = 0.0
    for i in range(x.size):
        total += x[i]
    return total


@njit("void(float64[::1], float64[::1])", nogil=True)
def _copy(x, y):
    for i in range(x.size):
        y[i] = x[i]


@njit("void(float64[::1], float64[::1], float64[::1])", nogil=True)
def _triad(x, y, z):
    for i in range(x.size):
        z[i] = x[i] + 3.0 * y[i]


@njit("void(float32[:, ::1], float32[:, ::1], float32[:, ::1])")
def _nothing(a, b, out):
    pass


@njit("void(float32[::1])", parallel=True)
def _fork_and_join(x):
    for i in prange(x.size):
        x[i] = i


class Rate(NamedTuple):
    """The best of the rounds, a second; the fraction by which their median falls short of it; and
    the largest part of a round that its threads spent running, below 1 where others took cores.

    The median is that of the undisturbed rounds, or of the least disturbed few.
    """

    per_s: float
    spread: float
    running: float


Tasks = Sequence[Callable[[], object]]  # one a thread
Round = tuple[float, float]  # an amount a second, and the part of the time spent running


def _rates(tests: Mapping[str, Callable[[], Round]]) -> dict[str, Rate]:
    """Round after round through all tests: a machine that is slow for a while is so for all."""
    rounds: dict[str, list[Round]] = {name: [] for name in tests}
    begin, done = clock(), 0
    while done <= _QUIET or (
        clock() - begin < _PATIENCE_S and (done <= _ROUNDS or _busy(map(_summary, rounds.values())))
    ):
        for name, test in tests.items():
            rounds[name].append(test())
        done += 1
    return {name: _summary(found[1:]) for name, found in rounds.items()}  # the first one warms up


def _at_once(threads: int, tests: Mapping[str, tuple[float, Tasks]]) -> dict[str, Rate]:
    """Of each test its amount a second, when all its tasks run at once."""
    with ThreadPoolExecutor(threads) as pool:
        return _rates({name: partial(_round, pool, *test) for name, test in tests.items()})


def _round(pool: Executor, amount: float, tasks: Tasks) -> Round:
    """Of tasks that make up the amount when all of them run at once."""

    def timed(task: Callable[[], object]) -> tuple[float, float, float]:
        start, before = clock(), cpu_clock()
        task()
        spent, end = cpu_clock() - before, clock()
        return start, end, spent / (end - start)

    starts, ends, shares = zip(*pool.map(timed, tasks), strict=True)
    return amount / (max(ends) - min(starts)), statistics.mean(shares)


def _summary(rounds: Sequence[Round]) -> Rate:
    best = max(rate for rate, _ in rounds)
    quiet = [rate for rate, share in rounds if share >= _UNDISTURBED]
    if len(quiet) < _QUIET:
        quiet = [rate for rate, _ in sorted(rounds, key=lambda x: -x[1])[:_QUIET]]
    spread = max(_DOUBT, 1 - statistics.median(quiet) / best)
    return Rate(best, spread, max(share for _, share in rounds))


def _steps(kernel: Callable[[int], object], few: int, threads: int) -> int:
    """How many steps fill a round, from the time of a few, undisturbed."""

    def taken() -> float:
        start = clock()
        kernel(few)
        return clock() - start

    seconds = _ROUND_S * max(1, threads / 4)  # threads start one after another
    return max(few, int(few * seconds / min(taken() for _ in range(9))))


def _peak(dtype: str, threads: int) -> tuple[float, Tasks]:
    kernel, flop = fma_kernel(dtype)
    steps = _steps(lambda n: kernel(n, 0.5), 100_000, threads)
    return threads * steps * flop, [partial(kernel, steps, 0.5)] * threads


def _streams(threads: int, array_bytes: int) -> dict[str, tuple[float, Tasks]]:
    """read counts the bytes of one array, copy of two, triad of three (McCalpin's STREAM)."""
    arrays = [np.full(array_bytes // 8, i, np.float64) for i in range(3)]
    parts = list(zip(*(np.array_split(x, threads) for x in arrays), strict=True))
    return {
        name: (count * array_bytes, [partial(kernel, *p[:count]) for p in parts])
        for name, kernel, count in (("read", _read, 1), ("copy", _copy, 2), ("triad", _triad, 3))
    }


def _reads(threads: int, array_bytes: int) -> tuple[float, Tasks]:
    """Every thread reads an array of its own again and again."""
    kernel, step_bytes = read_kernel()
    arrays = [_aligned(array_bytes) for _ in range(threads)]
    steps = _steps(partial(kernel, arrays[0]), 10_000, threads)
    return threads * steps * step_bytes, [partial(kernel, x, steps) for x in arrays]


def _aligned(array_bytes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """To a page: no vector straddles two lines, and arrays lie alike in the sets of a cache."""
    spare = np.ones((array_bytes + 4096) // 8, np.int64)
    first = -spare.ctypes.data % 4096 // 8
    return spare[first : first + array_bytes // 8]


def fixed_cost(threads: int) -> dict[str, Any]:
    """Seconds of a call that does nothing, with their spread: of the call itself, or of a threading
    layer's fork and join.

    Spinning threads wait for a core only where others took it, but those that sleep also wait for
    one another: rounds of multiply-adds before and after tell whether the cores were free.
    """
    a, x = np.zeros((2, 2), np.float32), np.zeros(threads, np.float32)
    call = partial(_nothing, a, a, a) if threads == 1 else partial(_fork_and_join, x)

    def calls() -> Round:
        numba.set_num_threads(threads)  # that the calling thread forks into
        for _ in range(_CALLS):  # wakes them
            call()
        made, waited, begin, before = 0, _waited_s(), clock(), cpu_clock()
        while (taken := clock() - begin) < _ROUND_S:  # beside other work one call can take longer
            for _ in range(_CALLS):
                call()
            made += _CALLS
        running = min(cpu_clock() - before, taken - (_waited_s() - waited))
        return made / taken, running / taken

    with ThreadPoolExecutor(threads) as pool, ThreadPoolExecutor(1) as caller:
        witness = partial(_round, pool, *_peak("fp32", threads))
        _, free = witness()

        def test() -> Round:
            nonlocal free
            before = free
            rate, share = caller.submit(calls).result()
            _, free = witness()
            return rate, max(share, min(before, free))

        rate = _rates({"": test})[""]
    mode = "call" if threads == 1 else numba.threading_layer()
    cost = 1 / rate.per_s, 1 / (1 - rate.spread) - 1
    return {"t0_s": {mode: cost}, "busy": _busy([rate])}


def _waited_s() -> float:
    """Seconds that threads of this process were ready to run and had no core; 0 if not told.

    Source: the kernel's Documentation/scheduler/sched-stats.rst.
    """
    told = Path("/proc/self/task").glob("*/schedstat")
    return sum(int(x.read_text().split()[1]) for x in told) / 1e9


def measure(threads: int, array_bytes: int) -> dict[str, Any]:
    """The ceilings on so many threads: FLOP/s, bytes/s and T0 in seconds, with their spread.

    `array_bytes` is the size of each array of the streams, several times the last-level cache.
    `busy` tells that other work took the cores in every round of some test.
    """
    peaks = {dtype: _peak(dtype, threads) for dtype in ("fp32", "fp64")}
    streams = _streams(threads, array_bytes)
    rates = _at_once(threads, peaks | streams)
    fixed = fixed_cost(threads)
    return {
        "peak": {name: rates[name][:2] for name in peaks},
        "bandwidth": {name: rates[name][:2] for name in streams},
        "t0_s": fixed["t0_s"],
        "busy": _busy(rates.values()) or fixed["busy"],
    }


def levels(threads: int, array_bytes: dict[str, int]) -> dict[str, Any]:
    """Read bandwidth in bytes/s with its spread, by level: each thread's array lies in that cache.

    The sizes are powers of two.
    """
    tests = {level: _reads(threads, size) for level, size in array_bytes.items()}
    found = _at_once(threads, tests)
    return {
        "levels": {level: rate[:2] for level, rate in found.items()},
        "busy": _busy(found.values()),
    }


def _busy(rates: Iterable[Rate]) -> bool:
    return min(rate.running for rate in rates) < _UNDISTURBED
