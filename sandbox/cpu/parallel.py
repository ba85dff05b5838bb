"""Idea: all threads at once. C is cut into blocks, as square as their number allows; each thread
takes one after another until none is left, and multiplies it as `packed` does, with buffers of its
own.

Traffic: a row of blocks shares its rows of A, a column of blocks its columns of B; each block
copies what it needs, so A and B are copied once for every block in a row or column.

Watch: one fork and one join for the whole product; small products are not worth them, and are
left to fewer threads or to one. Other work takes cores now and then, and all wait for the slowest
thread: with four blocks a thread instead of one, 16 threads were 1.15 to 1.3 times as fast. With
two threads the copies of smaller blocks cost more than that gains.
"""

from functools import partial

import numpy as np
from numba import get_num_threads, njit, prange

from sandbox import variant
from sandbox.cpu._emitter import VECTOR_BYTES, fetch_add
from sandbox.cpu.packed import ROWS, packed

GRAIN = 1 << 19  # multiply-adds that are worth a thread
WORD = 16  # multiply-adds in whose time a word comes from memory


@njit
def edge(size, parts, part, step):
    """Where a part begins: nearly equal parts of whole steps."""
    return min(size, (size + step - 1) // step * part // parts * step)


@njit(parallel=True)
def blocks(threads, rows, columns, taken, a, b, out):
    m, n = out.shape
    height, width = ROWS[3], 3 * VECTOR_BYTES // out.itemsize
    taken[0] = 0
    for _ in prange(threads):
        t = fetch_add(taken)
        while t < rows * columns:
            i, j = t % rows, t // rows
            i0, i1 = edge(m, rows, i, height), edge(m, rows, i + 1, height)
            j0, j1 = edge(n, columns, j, width), edge(n, columns, j + 1, width)
            packed(a[i0:i1, ::1], b[:, j0:j1:1], out[i0:i1, j0:j1:1])
            t = fetch_add(taken)


def _half(problem):
    return "Numba has no float16 on a CPU" if problem.dtype == "float16" else ""


@variant("cpu", after="packed", parallel=True, prepare=True, supports=_half)
def parallel(problem):
    m, n, k = problem.m, problem.n, problem.k
    work = m * n * k + WORD * (m * k + k * n + m * n)
    threads = min(get_num_threads(), work // GRAIN)
    if threads < 2:
        return packed
    parts = threads * max(1, min(4, threads // 2))
    grids = [(r, parts // r) for r in range(parts, 0, -1) if parts % r == 0]
    rows, columns = min(grids, key=lambda grid: m / grid[0] + n / grid[1])
    return partial(blocks, threads, rows, columns, np.zeros(1, np.int64))
