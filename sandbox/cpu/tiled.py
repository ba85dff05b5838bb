"""Idea: tiles that fit the caches. A piece of B is copied to a place of its own, small enough for
L2, and all rows of A use it before the next piece is fetched. Three rows of C grow in a panel in
L1 and are added to C when they are done with the piece.

Traffic: B crosses from memory once instead of once for every two rows. Four steps of k share a pass
over the panel, so that L1 feeds mnk (1/3 + 2/4) words. C itself is loaded and stored k/KC times: a
larger KC moves less, until the tile of B no longer fits.

Watch: powers of two. The rows of a matrix with 1024 columns are 4096 bytes apart; they fall into
the same sets of the cache, and the processor takes a load from one for a load of what it has just
stored to another. The copies, whose rows are PAD longer, are free of that.
"""

import numpy as np
from numba import njit

from sandbox import variant

MR = 3  # rows of C in the panel
KC, NC = 128, 256  # the tile of B: 128 KiB in float32, a part of L2
PAD = 16


@variant("cpu", after="unrolled")
@njit(fastmath={"contract"})
def tiled(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    tile = np.empty((KC, NC + PAD), a.dtype)
    panel = np.empty((MR, NC + PAD), a.dtype)
    for j0 in range(0, n, NC):
        nc = min(NC, n - j0)
        for p0 in range(0, max(k, 1), KC):  # once even for k = 0, to write zeros
            kc = min(KC, k - p0)
            for p in range(kc):
                row = b[p0 + p, j0 : j0 + nc]
                for j in range(nc):
                    tile[p, j] = row[j]
            for i in range(0, m, MR):
                # Past the last row, that row again; its result is not stored.
                a0, a1, a2 = a[i, p0:], a[min(i + 1, m - 1), p0:], a[min(i + 2, m - 1), p0:]
                panel[:, :] = 0
                for p in range(0, kc - 3, 4):
                    a00, a01, a02, a03 = a0[p], a0[p + 1], a0[p + 2], a0[p + 3]
                    a10, a11, a12, a13 = a1[p], a1[p + 1], a1[p + 2], a1[p + 3]
                    a20, a21, a22, a23 = a2[p], a2[p + 1], a2[p + 2], a2[p + 3]
                    for j in range(nc):
                        b0, b1, b2, b3 = tile[p, j], tile[p + 1, j], tile[p + 2, j], tile[p + 3, j]
                        panel[0, j] += a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
                        panel[1, j] += a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
                        panel[2, j] += a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
                for p in range(kc - kc % 4, kc):
                    for j in range(nc):
                        panel[0, j] += a0[p] * tile[p, j]
                        panel[1, j] += a1[p] * tile[p, j]
                        panel[2, j] += a2[p] * tile[p, j]
                for r in range(min(MR, m - i)):
                    row = out[i + r, j0 : j0 + nc]
                    for j in range(nc):
                        row[j] = panel[r, j] if p0 == 0 else row[j] + panel[r, j]
