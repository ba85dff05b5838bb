"""Idea: the five loops of Goto and van de Geijn (ACM TOMS 34(3), 2008). A block of A (MC x KC) is
copied so that it stays in L2, a panel of B (KC x NC) so that it lies in L3, strip after strip as
the tiles read it; a strip is used by all tiles of the block one after another.

Traffic: L1 feeds mnk (1/MR + 1/NR) words as before, but they come from where they were put: A is
copied once for every NC columns, B once and read again for every MC rows, and C crosses k/KC times.

Watch: copying pays when it is used often. Where B fits into L1, or few rows use it, it is read
where it lies; so are rows of A that are short enough not to disturb one another.
"""

from numba import njit

from sandbox import variant
from sandbox.cpu._blocking import BLOCKING, L1_BYTES
from sandbox.cpu._emitter import HOST, VECTOR_BYTES, aligned, copy, prefetch, rows_contiguous, tile
from sandbox.cpu.vectorised import dots, thin, vectors_of_strip

ROWS = HOST.rows
FEW = 8  # rows of A that are too few to pay for a copy of B; of more, no tile is half empty


@njit
def part(total, most, step):
    """How many of `total` to take now, so that all parts are nearly equal and none above `most`."""
    count = max(1, (total + most - 1) // most)
    return min(total, most, (total + count * step - 1) // (count * step) * step)


@njit(inline="always")  # else LLVM compiles the tiles twice
def multiply(a, b, out, KC, MC, NC):
    """The five loops; rows of `out` are contiguous and at least a vector long."""
    m, k = a.shape
    n = b.shape[1]
    lanes = VECTOR_BYTES // a.itemsize
    NR = 3 * lanes
    a_in_place = rows_contiguous(a) and 0 < a.strides[0] <= 2 * KC * a.itemsize
    b_rows = rows_contiguous(b)
    b_in_place = b_rows and (m <= FEW or k * n * b.itemsize <= L1_BYTES)
    block = aligned(0 if a_in_place else min(m, MC), min(k, KC), a)
    strips = 1 if m <= MC else min(n, NC) // (NR - lanes) + 2
    panel = aligned(0 if b_in_place else strips * min(k, KC), NR, b)
    left = a if a_in_place else block
    jc = 0
    while jc < n:
        nc = part(n - jc, NC, NR)
        pc = 0
        while pc < k or pc == 0:  # once even for k = 0, to write zeros
            kc = part(k - pc, KC, 4)
            ic = 0
            while ic < m:
                mc = part(m - ic, MC, ROWS[3])
                if not a_in_place:
                    copy(block, a[ic : ic + mc, pc : pc + kc])
                i0, p0 = (ic, pc) if a_in_place else (0, 0)
                jr = strip = 0
                while jr < nc:
                    width = vectors_of_strip(nc - jr, lanes)
                    last = min((width - 1) * lanes, nc - jr - lanes)
                    first = ic == 0 and not b_in_place
                    if first and not b_rows:
                        copy(panel[strip:], b[pc : pc + kc, jc + jr : jc + jr + last + lanes])
                    tiles = (mc + ROWS[width] - 1) // ROWS[width]
                    low, higher = mc // tiles, mc % tiles
                    ir = 0
                    for t in range(tiles):
                        mr = low + (t < higher)
                        from_b = b_in_place or (first and b_rows and t == 0)
                        right = b if from_b else panel
                        q, j = (pc, jc + jr) if from_b else (strip, 0)
                        tile(
                            mr, width, last, left, i0 + ir, p0, right, q, j, out, ic + ir, jc + jr,
                            kc, pc > 0, panel, strip, from_b and first,
                        )  # fmt: skip
                        ir += mr
                        for p in range(t * kc // tiles, (t + 1) * kc // tiles):
                            if first:  # the next strip is on its way
                                prefetch(b, pc + p, jc + jr + NR)
                                prefetch(b, pc + p, jc + jr + 2 * NR - 1)
                            elif not b_in_place:
                                prefetch(panel, strip + kc + p, 0)
                    jr += width * lanes
                    strip += kc if m > MC else 0
                ic += mc
            pc += max(kc, 1)
        jc += nc


@njit
def blocking(itemsize):
    """KC, MC, NC of this machine."""
    return BLOCKING.kc, BLOCKING.mc * 4 // itemsize, BLOCKING.nc * 4 // itemsize


@variant("cpu", after="vectorised")
@njit
def packed(a, b, out):
    if not rows_contiguous(out) or out.shape[1] * out.itemsize < VECTOR_BYTES:
        dots(a, b, out)
    elif min(a.shape) == 1 and rows_contiguous(b):
        thin(a, b, out)
    else:
        # A slice with a step leaves the layout open: the loops are compiled once for all layouts.
        KC, MC, NC = blocking(a.itemsize)
        multiply(a[:, ::1], b[:, ::1], out[:, ::1], KC, MC, NC)
