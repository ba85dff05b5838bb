"""Idea:

Traffic:

Watch:
"""

from numba import njit

from sandbox import variant
from sandbox.cpu._emitter import HOST, VECTOR_BYTES, rows_contiguous, tile
from sandbox.cpu.simd import simd

ROWS = HOST.rows


@variant("cpu", after="simd")
@njit
def vectorised(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    lanes = VECTOR_BYTES // a.itemsize
    if n < lanes or not (rows_contiguous(a) and rows_contiguous(b) and rows_contiguous(out)):
        simd(a, b, out)
        return
    j = 0
    while j < n:
        left = (n - j + lanes - 1) // lanes
        width = 3 if left == 3 or left > 4 else min(left, 2)
        last = min((width - 1) * lanes, n - j - lanes)
        tiles = (m + ROWS[width] - 1) // ROWS[width]
        low, higher = m // max(tiles, 1), m % max(tiles, 1)
        i = 0
        for left in range(tiles):
            height = low + (left < higher)
            tile(height, width, last, a, i, 0, b, 0, j, out, i, j, k, False)
            i += height
        j += width * lanes
