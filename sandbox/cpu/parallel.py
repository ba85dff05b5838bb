"""Idea: all threads at once. C is cut into as many blocks as there are threads, as square as the
number allows, and each thread multiplies its own as `packed` does, with buffers of its own.

Traffic: a row of blocks shares its rows of A, a column of blocks its columns of B; each thread
copies what it needs, so A and B are copied once for every block in a row or column.

Watch: one fork and one join for the whole product; small products are not worth them, and are
left to fewer threads or to one. The slowest thread decides: blocks are of equal size.
"""

from functools import partial

from numba import get_num_threads, njit, prange

from sandbox import variant
from sandbox.cpu._emitter import VECTOR_BYTES
from sandbox.cpu.packed import packed

GRAIN = 1 << 19  # multiply-adds that are worth a thread


@njit
def edge(size, parts, part, step):
    """Where a part begins: equal parts of whole steps."""
    return min(size, (size + step - 1) // step * part // parts * step)


@njit(parallel=True)
def blocks(rows, columns, a, b, out):
    (m, n), lanes = out.shape, VECTOR_BYTES // out.itemsize
    for t in prange(rows * columns):
        i, j = t // columns, t % columns
        i0, i1 = edge(m, rows, i, 4), edge(m, rows, i + 1, 4)
        j0, j1 = edge(n, columns, j, lanes), edge(n, columns, j + 1, lanes)
        packed(a[i0:i1, ::1], b[:, j0:j1:1], out[i0:i1, j0:j1:1])


def _half(problem):
    return "Numba has no float16 on a CPU" if problem.dtype == "float16" else ""


@variant("cpu", after="packed", parallel=True, prepare=True, supports=_half)
def parallel(problem):
    m, n = problem.m, problem.n
    threads = min(get_num_threads(), m * n * problem.k // GRAIN)
    if threads < 2:
        return packed
    grids = [(r, threads // r) for r in range(1, threads + 1) if threads % r == 0]
    rows, columns = min(grids, key=lambda grid: m / grid[0] + n / grid[1])
    return partial(blocks, rows, columns)
