"""Idea: tiles are fetched while others are multiplied. One thread asks the copy engine (TMA) for a
whole tile by its coordinates; STAGES tiles are on their way or in use at any time.

Traffic: as before, but the addresses, masks and registers of a copy are gone: a larger tile fits,
and 128 x 256 loads a quarter less than 128 x 128.

Watch: TMA wants rows on multiples of 16 bytes; what lies otherwise is copied first, and C last.
Zeros come for what lies outside of a matrix, and nothing is written there. Small products get small
tiles, since every SM should have one.
"""

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from sandbox import variant
from sandbox.gpu import _operands
from sandbox.gpu.grouped import order


@triton.jit
def product(
    a,
    b,
    tile_m,
    tile_n,
    k,
    A_T: tl.constexpr,
    B_T: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """The sums of a tile of C, from descriptors of A or its transpose and of B transposed or B."""
    total = tl.zeros([BM, BN], tl.float32)
    for p in range(0, k, BK):
        x = a.load([p, tile_m * BM]).T if A_T else a.load([tile_m * BM, p])
        y = b.load([p, tile_n * BN]) if B_T else b.load([tile_n * BN, p]).T
        total = tl.dot(x, y, total, input_precision="tf32")
    return total


@triton.jit
def _kernel(
    a,
    b,
    out,
    m,
    n,
    k,
    A_T: tl.constexpr,
    B_T: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    tile_m, tile_n = order(tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN))
    total = product(a, b, tile_m, tile_n, k, A_T, B_T, BM, BN, BK)
    out.store([tile_m * BM, tile_n * BN], total.to(out.dtype))


# BM, BN, stages, warps. C passes through shared memory whole: in FP32 the first tile is too large.
TILES = ((128, 256, 3, 8), (128, 128, 3, 4), (64, 128, 4, 4), (64, 32, 4, 4))


@variant(
    "gpu",
    after="grouped",
    unit={"float32": "tf32"},
    accuracy={"float32": "tf32"},
    supports=_operands.tma,
    expects=("*MMA", "UTMALDG"),
)
def pipelined(a, b, out):
    (m, n), k = out.shape, a.shape[1]
    bm, bn, stages, warps = _operands.largest(TILES[a.itemsize == 4 :], m, n, a)
    bk = 128 // a.itemsize

    def launch(a, b, c, a_t, b_t):
        a = TensorDescriptor.from_tensor(a, [bk, bm] if a_t else [bm, bk])
        b = TensorDescriptor.from_tensor(b, [bk, bn] if b_t else [bn, bk])
        c = TensorDescriptor.from_tensor(c, [bm, bn])
        blocks = triton.cdiv(m, bm) * triton.cdiv(n, bn)
        _kernel[blocks,](a, b, c, m, n, k, a_t, b_t, bm, bn, bk, num_warps=warps, num_stages=stages)

    _operands.through_tma(launch, a, b, out)
