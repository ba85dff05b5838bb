"""Idea: tiles. A piece of B that fits the L2 cache is copied to a place of its own, and all rows of
A use it before the next piece is fetched. Within it, a small tile of A (MR x KR numbers in
registers) does MR KR multiply-adds for each MR + KR words of B and C that are loaded.

Traffic: B crosses from memory once, not once for every MR rows. C is loaded and stored once for
every KR steps of k instead of every step, so L1 feeds mnk (1/MR + 2/KR) words. From beyond L2, C
comes k/KC times: a larger KC moves less, until the tile no longer fits.

Watch: the copy. In B itself, the rows of a tile lie a whole row of B apart; when that is a power of
two they all fall into the same few sets of the cache. PAD keeps the copy's rows off them.
"""

import numpy as np
from numba import njit

from sandbox import variant

MR, KR = 3, 4  # the tile of A: rows of C and steps of k that share one pass over j
KC, NC = 64, 512  # the tile of B: 128 KiB in float32, a part of L2
PAD = 16


@variant("cpu", after="unrolled")
@njit(fastmath={"contract"})
def tiled(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    m_main, k_main = m - m % MR, k - k % KR
    out[:, :] = 0
    tile = np.empty((KC, NC + PAD), a.dtype)
    for j0 in range(0, n, NC):
        nc = min(NC, n - j0)
        for p0 in range(0, k_main, KC):
            kc = min(KC, k_main - p0)
            for p in range(kc):
                row = b[p0 + p, j0 : j0 + nc]
                for j in range(nc):
                    tile[p, j] = row[j]
            for i in range(0, m_main, MR):
                a0, a1, a2 = a[i, p0:], a[i + 1, p0:], a[i + 2, p0:]
                c0, c1, c2 = out[i, j0:], out[i + 1, j0:], out[i + 2, j0:]
                for p in range(0, kc, KR):
                    a00, a01, a02, a03 = a0[p], a0[p + 1], a0[p + 2], a0[p + 3]
                    a10, a11, a12, a13 = a1[p], a1[p + 1], a1[p + 2], a1[p + 3]
                    a20, a21, a22, a23 = a2[p], a2[p + 1], a2[p + 2], a2[p + 3]
                    for j in range(nc):
                        b0, b1, b2, b3 = tile[p, j], tile[p + 1, j], tile[p + 2, j], tile[p + 3, j]
                        c0[j] += a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
                        c1[j] += a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
                        c2[j] += a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
    # What is left: the last k % KR steps of every row, and all steps of the last m % MR rows.
    for i in range(m):
        for p in range(k_main if i < m_main else 0, k):
            for j in range(n):
                out[i, j] += a[i, p] * b[p, j]
