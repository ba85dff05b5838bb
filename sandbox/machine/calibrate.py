"""Kernels that reach the ceilings of this machine, and what they measure. For workers only."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

from sandbox.measure import clock

_ROUNDS = 12
_ROUND_S = 0.015
_UNROLL = 4


def _features() -> dict[str, bool]:
    return dict(llvm.get_host_cpu_features())


def vector_bits() -> int:
    """The widest vectors of this processor (NEON's on aarch64)."""
    has = _features()
    return 512 if has.get("avx512f") else 256 if has.get("avx") else 128


def fma_kernel(dtype: str) -> tuple[Callable[[int, float], float], int]:
    """A loop of independent chains of multiply-adds, and the FLOP in one of its steps.

    Enough chains hide the latency of every FMA unit (4 cycles x 2 to 4 units), few enough stay in
    registers: 12 where there are 16 vector registers, else 24.
    """
    has, bits = _features(), vector_bits()
    scalar = {"fp32": ir.FloatType(), "fp64": ir.DoubleType()}[dtype]
    size = {"fp32": 32, "fp64": 64}[dtype]
    lanes, chains = bits // size, 12 if bits == 256 else 24
    vector = ir.VectorType(scalar, lanes)
    fused = bits == 128 or has.get("fma", False)

    @intrinsic
    def run_chains(typing: Any, steps: Any, seed: Any) -> Any:
        def generate(context: Any, b: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
            count, start = arguments

            def splat(value: ir.Value) -> ir.Value:
                one = b.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
                zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
                return b.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)

            fma = b.module.globals.get(f"llvm.fma.v{lanes}f{size}") or ir.Function(
                b.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f{size}"
            )
            x, y = splat(start), splat(b.fadd(start, scalar(0.25)))
            first = [splat(b.fadd(start, scalar(i))) for i in range(chains)]
            entry, loop, done = b.block, b.append_basic_block(), b.append_basic_block()
            b.branch(loop)
            b.position_at_end(loop)
            step = b.phi(count.type)
            phis = [b.phi(vector) for _ in first]
            now: list[ir.Value] = list(phis)
            for _ in range(_UNROLL):
                if fused:
                    now = [b.call(fma, (v, x, y)) for v in now]
                else:
                    now = [b.fadd(b.fmul(v, x), y) for v in now]
            following = b.add(step, count.type(1))
            for phi, before, after in zip(phis, first, now, strict=True):
                phi.add_incoming(before, entry)
                phi.add_incoming(after, loop)
            step.add_incoming(count.type(0), entry)
            step.add_incoming(following, loop)
            b.cbranch(b.icmp_signed("<", following, count), loop, done)
            b.position_at_end(done)
            total = now[0]
            for v in now[1:]:
                total = b.fadd(total, v)
            return b.extract_element(total, ir.IntType(32)(0))

        return seed(types.intp, seed), generate

    number = {"fp32": types.float32, "fp64": types.float64}[dtype]

    @njit(number(types.intp, number), nogil=True)
    def kernel(steps, seed):
        return run_chains(steps, seed)

    return kernel, 2 * lanes * chains * _UNROLL


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


def _best(amount: float, tasks: Sequence[Callable[[], object]]) -> tuple[float, float]:
    """`amount` a second when all tasks run at once, the best of the rounds; and the fraction by
    which the median round falls short of it."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        rates = []
        for _ in range(_ROUNDS):
            start = clock()
            list(pool.map(lambda task: task(), tasks))
            rates.append(amount / (clock() - start))
    return max(rates), 1 - statistics.median(rates) / max(rates)


def _peak(dtype: str, threads: int) -> tuple[float, float]:
    kernel, flop = fma_kernel(dtype)
    start = clock()
    kernel(100_000, 0.5)
    steps = int(100_000 * _ROUND_S / (clock() - start))
    return _best(threads * steps * flop, [partial(kernel, steps, 0.5)] * threads)


def _bandwidth(threads: int, array_bytes: int) -> dict[str, tuple[float, float]]:
    """read counts the bytes of one array, copy of two, triad of three (McCalpin's STREAM)."""
    arrays = [np.full(array_bytes // 8, i, np.float64) for i in range(3)]
    parts = list(zip(*(np.array_split(x, threads) for x in arrays), strict=True))
    return {
        name: _best(count * array_bytes, [partial(kernel, *p[:count]) for p in parts])
        for name, kernel, count in (("read", _read, 1), ("copy", _copy, 2), ("triad", _triad, 3))
    }


def _fixed_cost(threads: int) -> dict[str, float]:
    """Seconds of a call that does nothing: of the call itself, or of a threading layer's fork and
    join."""
    a, x = np.zeros((2, 2), np.float32), np.zeros(threads, np.float32)

    def once(call: Callable[[], object]) -> float:
        start, calls = clock(), 0
        while clock() - start < _ROUND_S:
            for _ in range(100):
                call()
            calls += 100
        return (clock() - start) / calls

    if threads == 1:
        return {"call": min(once(lambda: _nothing(a, a, a)) for _ in range(5))}
    numba.set_num_threads(threads)
    fastest = min(once(lambda: _fork_and_join(x)) for _ in range(5))
    return {numba.threading_layer(): fastest}


def measure(threads: int, array_bytes: int) -> dict[str, Any]:
    """The ceilings on so many threads: FLOP/s and bytes/s with their spread, T0 in seconds.

    `array_bytes` is the size of each array of the bandwidth tests, several times the last-level
    cache.
    """
    return {
        "peak": {dtype: _peak(dtype, threads) for dtype in ("fp32", "fp64")},
        "bandwidth": _bandwidth(threads, array_bytes),
        "t0_s": _fixed_cost(threads),
    }
