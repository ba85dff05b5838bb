"""What this machine reaches: multiply-adds, reads at every level, empty calls. For workers only."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import njit, prange

from sandbox.machine.kernels import fma_kernel, read_kernel
from sandbox.measure import clock, cpu_clock

_ROUNDS = 20
_ROUND_S = 0.005  # less than a time slice: between two others' a round is undisturbed
_QUIET = 5  # rounds make a median
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


def _rates(tests: Mapping[str, tuple[float, Tasks]]) -> dict[str, Rate]:
    """Of each test its amount a second, when all its tasks run at once.

    Round after round through all tests: a machine that is slow for a while is so for all.
    """
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in tests}
    with ThreadPoolExecutor(max(len(tasks) for _, tasks in tests.values())) as pool:
        begin, done = clock(), 0
        while done <= _QUIET or (
            clock() - begin < _PATIENCE_S
            and (done <= _ROUNDS or _busy(map(_summary, rounds.values())))
        ):
            for name, (amount, tasks) in tests.items():
                rounds[name].append(_round(pool, amount, tasks))
            done += 1
    return {name: _summary(found[1:]) for name, found in rounds.items()}  # the first one warms up


def _round(pool: Executor, amount: float, tasks: Tasks) -> tuple[float, float]:
    """The amount a second, and the part of the time that the threads spent running."""

    def timed(task: Callable[[], object]) -> tuple[float, float, float]:
        start, before = clock(), cpu_clock()
        task()
        spent, end = cpu_clock() - before, clock()
        return start, end, spent / (end - start)

    starts, ends, shares = zip(*pool.map(timed, tasks), strict=True)
    return amount / (max(ends) - min(starts)), statistics.mean(shares)


def _summary(rounds: Sequence[tuple[float, float]]) -> Rate:
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


def fixed_cost(threads: int) -> dict[str, float]:
    """Seconds of a call that does nothing: of the call itself, or of a threading layer's fork and
    join."""
    a, x = np.zeros((2, 2), np.float32), np.zeros(threads, np.float32)
    if threads == 1:
        return {"call": _least(lambda: _nothing(a, a, a))}
    numba.set_num_threads(threads)
    least = _least(lambda: _fork_and_join(x))
    return {numba.threading_layer(): least}


def _least(call: Callable[[], object]) -> float:
    """Seconds a call, the best of many: what disturbs only ever adds."""
    taken, begin = [], clock()
    while clock() - begin < _ROUNDS * _ROUND_S:
        for calls in (1, 20):  # short calls together, long ones before they are disturbed
            start = clock()
            for _ in range(calls):
                call()
            taken.append((clock() - start) / calls)
    return min(taken)


def measure(threads: int, array_bytes: int) -> dict[str, Any]:
    """The ceilings on so many threads: FLOP/s and bytes/s with their spread, T0 in seconds.

    `array_bytes` is the size of each array of the streams, several times the last-level cache.
    `busy` tells that other work took the cores in every round of some test.
    """
    peaks = {dtype: _peak(dtype, threads) for dtype in ("fp32", "fp64")}
    streams = _streams(threads, array_bytes)
    rates = _rates(peaks | streams)
    return {
        "peak": {name: rates[name][:2] for name in peaks},
        "bandwidth": {name: rates[name][:2] for name in streams},
        "t0_s": fixed_cost(threads),
        "busy": _busy(rates.values()),
    }


def levels(threads: int, array_bytes: dict[str, int]) -> dict[str, Any]:
    """Read bandwidth in bytes/s with its spread, by level: each thread's array lies in that cache.

    The sizes are powers of two.
    """
    found = _rates({level: _reads(threads, size) for level, size in array_bytes.items()})
    return {
        "levels": {level: rate[:2] for level, rate in found.items()},
        "busy": _busy(found.values()),
    }


def _busy(rates: Iterable[Rate]) -> bool:
    return min(rate.running for rate in rates) < _UNDISTURBED
