"""Threads add to the same elements of out, each for its part of k."""

from numba import njit, prange

from sandbox import variant

REASON = "wrong"


@variant("cpu", parallel=True)
@njit(parallel=True)
def race(a, b, out):
    m, n = out.shape
    out[:] = 0
    for p in prange(a.shape[1]):
        for i in range(m):
            for j in range(n):
                out[i, j] += a[i, p] * b[p, j]
