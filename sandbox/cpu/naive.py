"""Idea: the definition. Each element of C is the dot product of a row of A and a column of B: three
loops, as one writes them when one has just learnt to program.

Traffic: nothing is kept, so 2mnk words are loaded. A row of A is read in its order in memory, but a
column of B jumps n words at every step: each jump fetches a cache line of 64 bytes for the 4 that
are used. Once a column's lines no longer stay in the cache, traffic is many times the bound.

Watch: sizes that are powers of two. The lines of a column then share a few sets of the cache and
evict one another, and the kernel is slower still.
"""

from numba import njit

from sandbox import variant


@variant("cpu")
@njit
def naive(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    for i in range(m):
        for j in range(n):
            total = out.dtype.type(0)
            for p in range(k):
                total += a[i, p] * b[p, j]
            out[i, j] = total
