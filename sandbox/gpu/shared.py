"""Idea: tiles in shared memory. A program copies a BM x BK tile of A and a BK x BN tile of B to
memory beside the arithmetic units, and each thread multiplies them into a small tile of C that
stays in its registers. The copies are asynchronous: STAGES of them are on their way meanwhile.

Traffic: mnk (1/BM + 1/BN) words from L2, and for a thread's TM x TN part mnk (1/TM + 1/TN) from
shared memory, which delivers 32 words a cycle: 16 x 8 asks it for three quarters of that.

Watch: bank conflicts. A lies along k, and the threads of a warp read four words of rows that are
PHASE apart: swizzling moves each of those rows to other banks. An operand that lies otherwise in
memory is copied word by word. FP32 alone: the other types have tensor cores.
"""

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from sandbox import variant
from sandbox.gpu import _operands
from sandbox.gpu._gluon_api import ampere, copy_async, from_triton
from sandbox.gpu.grouped import order

order = from_triton(order)


@gluon.jit
def _kernel(
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
    A_T: gl.constexpr,
    B_T: gl.constexpr,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    STAGES: gl.constexpr,
    SUMS: gl.constexpr,
):
    warps: gl.constexpr = gl.num_warps()
    # Copies of four words where they are neighbours in memory, else of one.
    right_a: gl.constexpr = gl.BlockedLayout([1, 4], [128 // BK, BK // 4], [warps, 1], [1, 0])
    right_b: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [warps, 1], [1, 0])
    down_a: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, warps], [0, 1])
    down_b: gl.constexpr = gl.BlockedLayout([1, 1], [8, 4], [1, warps], [0, 1])
    from_a: gl.constexpr = down_a if A_T else right_a
    from_b: gl.constexpr = down_b if B_T else right_b
    PHASE: gl.constexpr = max(SUMS.size_per_thread[0], 32 // BK)
    a_lies: gl.constexpr = gl.SwizzledSharedLayout(4, PHASE, min(8, BK // 4), [1, 0])
    b_lies: gl.constexpr = gl.SwizzledSharedLayout(4, 1, 8, [1, 0])

    tile_m, tile_n = order(gl.program_id(0), gl.cdiv(m, BM), gl.cdiv(n, BN))
    i0 = tile_m.to(gl.int64) * BM
    j0 = tile_n.to(gl.int64) * BN
    i = i0 + gl.arange(0, BM, gl.SliceLayout(1, from_a))[:, None]
    ka = gl.arange(0, BK, gl.SliceLayout(0, from_a))[None, :]
    kb = gl.arange(0, BK, gl.SliceLayout(1, from_b))[:, None]
    j = j0 + gl.arange(0, BN, gl.SliceLayout(0, from_b))[None, :]
    a += i * am + ka.to(gl.int64) * ak
    b += kb.to(gl.int64) * bk + j * bn
    a_step = gl.cast(ak, gl.int64) * BK
    b_step = gl.cast(bk, gl.int64) * BK

    a_tiles = gl.allocate_shared_memory(a.dtype.element_ty, [STAGES, BM, BK], a_lies)
    b_tiles = gl.allocate_shared_memory(b.dtype.element_ty, [STAGES, BK, BN], b_lies)
    for stage in gl.static_range(STAGES - 1):
        left = k - stage * BK
        copy_async(a_tiles.index(stage), a, mask=(i < m) & (ka < left))
        copy_async(b_tiles.index(stage), b, mask=(kb < left) & (j < n))
        ampere.async_copy.commit_group()
        a += a_step
        b += b_step
    total = gl.zeros([BM, BN], gl.float32, SUMS)
    use, fill = 0, STAGES - 1
    for p in range(0, k, BK):
        ampere.async_copy.wait_group(STAGES - 2)
        left = k - p - (STAGES - 1) * BK
        copy_async(a_tiles.index(fill), a, mask=(i < m) & (ka < left))
        copy_async(b_tiles.index(fill), b, mask=(kb < left) & (j < n))
        ampere.async_copy.commit_group()
        a += a_step
        b += b_step
        x = a_tiles.index(use).load(gl.DotOperandLayout(0, SUMS, 0))
        y = b_tiles.index(use).load(gl.DotOperandLayout(1, SUMS, 0))
        total = gl.dot_fma(x, y, total)
        use = (use + 1) % STAGES
        fill = (fill + 1) % STAGES
    ampere.async_copy.wait_group(0)
    i = i0 + gl.arange(0, BM, gl.SliceLayout(1, SUMS))[:, None]
    j = j0 + gl.arange(0, BN, gl.SliceLayout(0, SUMS))[None, :]
    gl.store(out + i * cm + j * cn, total, mask=(i < m) & (j < n))


def _layout(rows, down, across):
    """A thread holds rows x 4 neighbours of C, a warp is 4 x 8 threads; repeated over the tile."""
    return gl.BlockedLayout([rows, 4], [4, 8], [down, across], [1, 0])


# BM, BN, BK, stages, warps and how threads share the tile
TILES = (
    (128, 256, 32, 3, 8, _layout(4, 2, 4)),
    (64, 128, 16, 4, 4, _layout(4, 2, 2)),
    (32, 64, 64, 3, 4, _layout(4, 2, 2)),
    (16, 32, 64, 3, 4, _layout(1, 4, 1)),
)


def _supports(problem):
    return "" if problem.dtype == "float32" else "FP32 alone: the other types have tensor cores"


@variant("gpu", after="rowblock", supports=_supports, expects=("FFMA*", "LDGSTS"))
def shared(a, b, out):
    (m, n), k = out.shape, a.shape[1]
    bm, bn, bk, stages, warps, layout = _operands.largest(TILES, m, n, a)
    blocks = triton.cdiv(m, bm) * triton.cdiv(n, bn)
    strides = (*a.stride(), *b.stride(), *out.stride())
    lie = a.stride(0) == 1, b.stride(0) == 1
    tiles = bm, bn, bk, stages, layout
    _kernel[blocks,](a, b, out, m, n, k, *strides, *lie, *tiles, num_warps=warps)
