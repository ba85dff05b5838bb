"""Idea: tensor cores. A warp hands a whole tile product to them in one instruction; a program
computes a BM x BN tile of C from tiles of A and B in shared memory. FP32 input is rounded to TF32,
ten bits of mantissa: that is a unit of its own, with its own ceiling and its own allowance.

Traffic: a program loads BM + BN words for BM BN multiply-adds: mnk (1/BM + 1/BN) words from L2.

Watch: the tensor cores wait while a tile is loaded, and the other way round. They take FP32 and FP8
along k only: a row-major B is copied first, in the time of the call. FP8 sums keep 14 bits.
"""

import triton
import triton.language as tl

from sandbox import variant
from sandbox.gpu import _operands

BM, BN = 128, 128
BK_BYTES = 128


@triton.jit
def product(
    a,
    b,
    out,
    m,
    n,
    k,
    am,
    ak,
    bk,
    bn,
    cm,
    cn,
    tile_m,
    tile_n,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    wide: tl.constexpr = tl.float64 if a.dtype.element_ty == tl.float64 else tl.float32
    i = tile_m.to(tl.int64) * BM + tl.arange(0, BM)[:, None]
    j = tile_n.to(tl.int64) * BN + tl.arange(0, BN)[None, :]
    p = tl.arange(0, BK).to(tl.int64)
    total = tl.zeros([BM, BN], wide)
    a += i * am + p[None, :] * ak
    b += p[:, None] * bk + j * bn
    for p0 in range(0, k, BK):
        x = tl.load(a, mask=(i < m) & (p[None, :] < k - p0), other=0.0)
        y = tl.load(b, mask=(p[:, None] < k - p0) & (j < n), other=0.0)
        total = tl.dot(x, y, total, input_precision="tf32", out_dtype=wide)
        a += BK * tl.cast(ak, tl.int64)
        b += BK * tl.cast(bk, tl.int64)
    tl.store(out + i * cm + j * cn, total.to(out.dtype.element_ty), mask=(i < m) & (j < n))


@triton.jit
def _kernel(
    a, b, out, m, n, k, am, ak, bk, bn, cm, cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    across = tl.cdiv(n, BN)
    tile_m, tile_n = tl.program_id(0) // across, tl.program_id(0) % across
    product(a, b, out, m, n, k, am, ak, bk, bn, cm, cn, tile_m, tile_n, BM, BN, BK)


@variant(
    "gpu",
    after="shared",
    unit={"float32": "tf32"},
    accuracy={"float32": "tf32"},
    supports=_operands.tensor_cores,
    expects=("*MMA",),
)
def tensorcore(a, b, out):
    launch(_kernel, a, b, out)


def launch(kernel, a, b, out, **options):
    """A program for each tile; also for the steps that only choose another order."""
    a, b = _operands.along_k(a), _operands.along_k(b.T).T
    (m, n), k = out.shape, a.shape[1]
    strides = (*a.stride(), *b.stride(), *out.stride())
    blocks = triton.cdiv(m, BM) * triton.cdiv(n, BN)
    tiles = {"BM": BM, "BN": BN, "BK": BK_BYTES // a.itemsize}
    kernel[blocks,](a, b, out, m, n, k, *strides, **tiles, num_warps=8, num_stages=1, **options)
