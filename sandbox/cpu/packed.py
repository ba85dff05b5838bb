"""Idea:

Traffic:

Watch:
"""

from numba import njit

from sandbox import variant
from sandbox.cpu._emitter import HOST, VECTOR_BYTES, aligned, copy, prefetch, rows_contiguous, tile
from sandbox.cpu.simd import simd

ROWS = HOST.rows
NR_BYTES = 3 * VECTOR_BYTES
KC_BYTES, MC, NC = 1024, 192, 4080


@njit
def parts(total, most, step):
    """How much of `total` to take so that equal parts, multiples of `step`, are at most `most`."""
    count = (total + most - 1) // most
    return min(total, (total + count * step - 1) // (count * step) * step)


@njit
def multiply(a, b, out, block, panel):
    m, k = a.shape
    n = b.shape[1]
    lanes = VECTOR_BYTES // a.itemsize
    KC = KC_BYTES // a.itemsize
    in_place = rows_contiguous(a) and a.strides[0] <= 2 * KC_BYTES and a.strides[0]>0
    jc = 0
    while jc < n:
        nc = parts(n - jc, NC, 3 * lanes)
        pc = 0
        while pc < k or pc == 0:
            kc = parts(k - pc, KC, 4) if k else 0
            ic = 0
            while ic < m:
                mc = parts(m - ic, MC, 12)
                if not in_place:
                    copy(block, 0, a, ic, pc, mc, kc)
                jr = strip = 0
                while jr < nc:
                    left = (nc - jr + lanes - 1) // lanes
                    width = 3 if left == 3 or left > 4 else min(left, 2)
                    last = min((width - 1) * lanes, nc - jr - lanes)
                    if ic == 0:
                        copy(panel, strip, b, pc, jc + jr, kc, last + lanes)
                    tiles = (mc + ROWS[width] - 1) // ROWS[width]
                    low, higher = mc // tiles, mc % tiles
                    ir = 0
                    for t in range(tiles):
                        height = low + (t < higher)
                        if in_place:
                            tile(height, width, last, a, ic + ir, pc, panel, strip, 0, out, ic + ir, jc + jr, kc, pc > 0)
                        else:
                            tile(height, width, last, block, ir, 0, panel, strip, 0, out, ic + ir, jc + jr, kc, pc > 0)
                        ir += height
                        if ic == 0:
                            for p in range(t * kc // tiles, (t + 1) * kc // tiles):
                                prefetch(b, pc + p, jc + jr + 3 * lanes)
                                prefetch(b, pc + p, jc + jr + 6 * lanes - 1)
                    jr += width * lanes
                    if m > MC:
                        strip += kc
                ic += mc
            pc += max(kc, 1)
        jc += nc


@variant("cpu", after="vectorised")
@njit
def packed(a, b, out):
    m, k = a.shape
    n = b.shape[1]
    lanes = VECTOR_BYTES // a.itemsize
    KC = KC_BYTES // a.itemsize
    if n < lanes or not rows_contiguous(out):
        simd(a, b, out)
        return
    block = aligned(min(MC, m), min(KC, k), a)
    strips = min(NC, n + 4*lanes) // (2 * lanes) + 2
    panel = aligned(strips * min(KC, k), 3 * lanes, a)
    multiply(a, b, out, block, panel)
