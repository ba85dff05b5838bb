"""Idea: as many programs as the GPU runs at once, each working through a list of tiles. The loop
over tiles and the loop over k become one, so that the pipeline does not run dry between tiles.

Traffic: as before. What goes is the start and the end of a program for each tile: C is stored, in
two halves, while the operands of the next tile are on their way.

Watch: shared memory holds the operands of several steps and half a tile of C, up to 224 KiB of the
227 there are. A last round with few tiles leaves most SMs idle, whatever the order.
"""

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from sandbox import variant
from sandbox.gpu import _operands
from sandbox.gpu.grouped import order
from sandbox.gpu.pipelined import product

TILES = ((128, 256, 3), (128, 128, 4), (128, 64, 4), (64, 64, 4))  # BM, BN, stages


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
    down, across = tl.cdiv(m, BM), tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), down * across, tl.num_programs(0), flatten=True):
        tile_m, tile_n = order(tile, down, across)
        total = product(a, b, tile_m, tile_n, k, A_T, B_T, BM, BN, BK)
        left, right = total.reshape(BM, 2, BN // 2).permute(0, 2, 1).split()
        out.store([tile_m * BM, tile_n * BN], left.to(out.dtype))
        out.store([tile_m * BM, tile_n * BN + BN // 2], right.to(out.dtype))


@variant(
    "gpu",
    after="pipelined",
    unit={"float32": "tf32"},
    accuracy={"float32": "tf32"},
    supports=_operands.tma,
    expects=("*MMA", "UTMALDG"),
)
def persistent(a, b, out):
    (m, n), k = out.shape, a.shape[1]
    bm, bn, stages = _operands.largest(TILES, m, n, a)
    bk = 128 // a.itemsize
    programs = min(triton.cdiv(m, bm) * triton.cdiv(n, bn), _operands.multiprocessors(a))

    def launch(a, b, c, a_t, b_t):
        a = TensorDescriptor.from_tensor(a, [bk, bm] if a_t else [bm, bk])
        b = TensorDescriptor.from_tensor(b, [bk, bn] if b_t else [bn, bk])
        c = TensorDescriptor.from_tensor(c, [bm, bn // 2])
        _kernel[programs,](
            a, b, c, m, n, k, a_t, b_t, bm, bn, bk, num_warps=bm // 16, num_stages=stages
        )

    _operands.through_tma(launch, a, b, out)
