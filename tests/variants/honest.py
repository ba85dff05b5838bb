"""Rows are shared out among threads: honest, and as small as a parallel variant can be."""

from numba import njit, prange

from sandbox import variant


@variant("cpu", parallel=True)
@njit(parallel=True)
def honest(a, b, out):
    m, n = out.shape
    for i in prange(m):
        out[i] = 0
        for p in range(a.shape[1]):
            for j in range(n):
                out[i, j] += a[i, p] * b[p, j]
