"""Idea: a register tile. The MR x NR sums of a tile of C stay in registers for the whole loop over
k, the only loop inside: loaded never, stored once. For the compiler to keep vectors of them, both
operands must run along k in memory: they are copied, a block of B and a few rows of A at a time.

Traffic: the inner loop loads MR + NR words for MR NR multiply-adds and stores none: mnk (1/MR +
1/NR) words from L1. B is copied once, A once for every NC columns of C.

Watch: each sum is a vector whose lanes are added at the end, about a tenth of the time at k=512
and more for a shorter k. Twelve sums fill the 16 vector registers of AVX2; with vector instructions
written by hand the lanes can lie along j, and nothing is left to add up.
"""

import numpy as np
from numba import njit

from sandbox import variant

MR, NR = 4, 3  # the register tile
KC_BYTES, NC = 2048, 96  # the block of B: 192 KiB, a part of L2; NR divides NC
PAD = 16  # keeps columns that are used together off the same sets of the cache


@variant("cpu", after="tiled", expects=("vector fma*",))
@njit(fastmath={"contract", "reassoc"})  # reassoc: the terms of a sum may be added in any order
def simd(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    kc_max = KC_BYTES // a.itemsize
    zero = out.dtype.type(0)
    a_rows = np.empty((MR, kc_max + PAD), a.dtype)
    b_cols = np.empty((NC, kc_max + PAD), a.dtype)
    panel = np.empty((MR, NC), a.dtype)
    for p0 in range(0, max(k, 1), kc_max):  # once even for k = 0, to write zeros
        kc = min(kc_max, k - p0)
        for j0 in range(0, n, NC):
            nc = min(NC, n - j0)
            for p in range(kc):
                row = b[p0 + p, j0 : j0 + nc]
                for j in range(nc):
                    b_cols[j, p] = row[j]
            for i0 in range(0, m, MR):
                mr = min(MR, m - i0)
                for i in range(mr):
                    row = a[i0 + i, p0 : p0 + kc]
                    for p in range(kc):
                        a_rows[i, p] = row[p]
                # Past the last row and column lies what was there before; it is never stored.
                for j in range(0, nc, NR):
                    c00 = c01 = c02 = c10 = c11 = c12 = zero
                    c20 = c21 = c22 = c30 = c31 = c32 = zero
                    for p in range(kc):  # the micro-kernel: 7 loads, 12 multiply-adds, no store
                        a0, a1, a2, a3 = a_rows[0, p], a_rows[1, p], a_rows[2, p], a_rows[3, p]
                        b0, b1, b2 = b_cols[j, p], b_cols[j + 1, p], b_cols[j + 2, p]
                        c00, c01, c02 = c00 + a0 * b0, c01 + a0 * b1, c02 + a0 * b2
                        c10, c11, c12 = c10 + a1 * b0, c11 + a1 * b1, c12 + a1 * b2
                        c20, c21, c22 = c20 + a2 * b0, c21 + a2 * b1, c22 + a2 * b2
                        c30, c31, c32 = c30 + a3 * b0, c31 + a3 * b1, c32 + a3 * b2
                    panel[0, j], panel[0, j + 1], panel[0, j + 2] = c00, c01, c02
                    panel[1, j], panel[1, j + 1], panel[1, j + 2] = c10, c11, c12
                    panel[2, j], panel[2, j + 1], panel[2, j + 2] = c20, c21, c22
                    panel[3, j], panel[3, j + 1], panel[3, j + 2] = c30, c31, c32
                for i in range(mr):
                    row = out[i0 + i, j0 : j0 + nc]
                    for j in range(nc):
                        row[j] = panel[i, j] if p0 == 0 else row[j] + panel[i, j]
