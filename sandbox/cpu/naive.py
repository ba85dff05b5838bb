"""Idea: three loops.

Traffic: x.

Watch: x.
"""

from numba import njit

from sandbox import variant


@variant("cpu")
@njit
def naive(a, b, out):
    m, n = out.shape
    for i in range(m):
        for j in range(n):
            total = out.dtype.type(0)
            for p in range(a.shape[1]):
                total += a[i, p] * b[p, j]
            out[i, j] = total
