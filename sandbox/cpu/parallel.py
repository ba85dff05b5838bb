"""Idea: all threads at once. C is cut into as many blocks as there are threads, as square as the
number allows, and each thread multiplies its own as `packed` does, with buffers of its own.

Traffic: a row of blocks shares its rows of A, a column of blocks its columns of B; each thread
copies what it needs, so A and B are copied once for every block in a row or column.

Watch: one fork and one join for the whole product; small products are not worth them, and are
left to fewer threads or to one. The slowest thread decides: blocks are of equal size.
"""

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
def blocks(a, b, out):
    (m, k), n = a.shape, b.shape[1]
    threads = max(1, min(get_num_threads(), m * n * k // GRAIN))
    rows = 1
    for r in range(1, threads + 1):  # the grid whose blocks have the shortest sides
        if threads % r == 0 and m * (threads // r) + n * r < m * (threads // rows) + n * rows:
            rows = r
    columns = threads // rows
    lanes = VECTOR_BYTES // a.itemsize
    for t in prange(threads):
        i, j = t // columns, t % columns
        i0, i1 = edge(m, rows, i, 4), edge(m, rows, i + 1, 4)
        j0, j1 = edge(n, columns, j, lanes), edge(n, columns, j + 1, lanes)
        packed(a[i0:i1, ::1], b[:, j0:j1:1], out[i0:i1, j0:j1:1])


@variant("cpu", after="packed", parallel=True, prepare=True)
def parallel(problem):
    work = problem.m * problem.n * problem.k
    return blocks if min(get_num_threads(), work // GRAIN) > 1 else packed
