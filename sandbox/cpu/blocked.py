"""Idea: the schedule of the pebble game. Told a fast memory of WORDS words, it keeps the largest
square of C there that leaves room for a row of B and single elements of A, for the whole of k.

Traffic: 2mnk/TILE + mn words: at n=496 with 1024 words 6.5 % above 2n^3/sqrt(1024), the bound's
leading term. No kernel of the ladder moves less from so small a memory, though others are faster:
every multiply-add still loads and stores its sum in L1.

Watch: a cache is not told what to keep. LRU holds on to rows of B and elements of A that are done
with, so with just WORDS words it drops each sum before its next use; with some slack it does not.
"""

from math import isqrt

from numba import njit

from sandbox import variant

WORDS = 1024  # the fast memory: 4 KiB of float32
TILE = isqrt(WORDS + 1) - 1  # the most for which TILE^2 + 2 TILE words fit


@variant("cpu", after="tiled")
@njit(fastmath={"contract"})
def blocked(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    for i0 in range(0, m, TILE):
        for j0 in range(0, n, TILE):
            sums = out[i0 : i0 + TILE, j0 : j0 + TILE]
            sums[:, :] = 0
            for p in range(k):
                row = b[p, j0 : j0 + TILE]
                for i in range(sums.shape[0]):
                    for j in range(row.size):
                        sums[i, j] += a[i0 + i, p] * row[j]
