"""Idea: write the vector instructions by hand. A tile of C, MR rows by NR columns (4 x 24 with
AVX2 in float32), stays in registers for the whole of k; its lanes lie along j, so that nothing is
added up at the end. Each step of k loads NR elements of B and MR of A for MR NR multiply-adds.

Traffic: mnk (1/MR + 1/NR) words from L1, as in `simd`, but with one store for each element of C and
no copies: A, B and C are used where they lie.

Watch: the edges. Rows are shared out so that tiles differ by one row at most and none is thin;
the last vector of a row overlaps the one before it. Rows have to be contiguous and a vector long,
else plain dot products do the work; large powers of two still collide in the caches.
"""

import numpy as np
from numba import njit

from sandbox import variant
from sandbox.cpu._emitter import HOST, VECTOR_BYTES, contiguous, rows_contiguous, tile

ROWS = HOST.rows


@njit(fastmath={"contract", "reassoc"})
def dot(x, y):
    total = x.dtype.type(0)
    for p in range(x.size):
        total += x[p] * y[p]
    return total


@njit
def dots(a, b, out):
    """One dot product after the other: for what lies in no order that vectors along j can use."""
    column = np.empty(a.shape[1], a.dtype)
    for j in range(out.shape[1]):
        for p in range(column.size):
            column[p] = b[p, j]
        for i in range(out.shape[0]):
            if rows_contiguous(a):
                out[i, j] = dot(contiguous(a[i]), column)
            else:
                out[i, j] = 0
                for p in range(column.size):
                    out[i, j] += a[i, p] * column[p]


@njit(fastmath={"contract"})
def thin(a, b, out):
    """A of one row or one column: rows of B are added up as they stream by, four at a time."""
    k = a.shape[1]
    for i in range(out.shape[0]):
        row, first = contiguous(out[i]), contiguous(b[0])
        for j in range(row.size):
            row[j] = a[i, 0] * first[j]
        for p in range(1, k - 3, 4):
            w, x, y, z = a[i, p], a[i, p + 1], a[i, p + 2], a[i, p + 3]
            bw, bx = contiguous(b[p]), contiguous(b[p + 1])
            by, bz = contiguous(b[p + 2]), contiguous(b[p + 3])
            for j in range(row.size):
                row[j] += w * bw[j] + x * bx[j] + y * by[j] + z * bz[j]
        for p in range(k - (k - 1) % 4, k):
            x, bx = a[i, p], contiguous(b[p])
            for j in range(row.size):
                row[j] += x * bx[j]


@njit
def vectors_of_strip(columns, lanes):
    """How wide the next strip is: 3 vectors, or 2 where else a single one would be left over."""
    vectors = (columns + lanes - 1) // lanes
    return 3 if vectors == 3 or vectors > 4 else 2


@variant("cpu", after="simd")
@njit
def vectorised(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    lanes = VECTOR_BYTES // a.itemsize
    if n < lanes or not (rows_contiguous(a) and rows_contiguous(b) and rows_contiguous(out)):
        dots(a, b, out)
        return
    if min(m, k) == 1:
        thin(a, b, out)
        return
    j = 0
    while j < n and m:
        width = vectors_of_strip(n - j, lanes)
        last = min((width - 1) * lanes, n - j - lanes)
        tiles = (m + ROWS[width] - 1) // ROWS[width]
        low, higher = m // tiles, m % tiles
        i = 0
        for t in range(tiles):
            mr = low + (t < higher)
            tile(mr, width, last, a, i, 0, b, 0, j, out, i, j, k, False, b, 0, False)
            i += mr
        j += width * lanes
