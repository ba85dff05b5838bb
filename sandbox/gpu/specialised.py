"""Idea: warps with professions. One warp does nothing but ask TMA for tiles, as far ahead as shared
memory goes, across the ends of tiles of C too. Two groups of four do nothing but feed the tensor
cores (wgmma), each with the rows of C that are its own. Barriers in shared memory tell the groups
that tiles are there, and the loading warp that both are done with them.

Traffic: as in persistent. What goes is waiting: no warp that multiplies ever issues a copy, and
while one group stores its part of C, the other still multiplies.

Watch: registers. A group holds 64 x 256 sums, 128 a thread; the loading warp is left with 24. A
place is free when wgmma has read it, one step after that was issued.
"""

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from sandbox import variant
from sandbox.gpu import _operands
from sandbox.gpu._gluon_api import barrier, descriptor, from_triton, hopper, tma_load, tma_store
from sandbox.gpu.grouped import order

order = from_triton(order)
mbarrier, tma = hopper.mbarrier, hopper.tma

BM = gl.constexpr(64)  # rows of a group; a program has two
TILES = ((128, 256, 4), (128, 128, 4), (128, 64, 6))  # rows, columns, stages


@gluon.jit
def _load(a, b, a_tiles, b_tiles, ready, free, m, n, k, A_T, B_T):
    STAGES: gl.constexpr = ready.shape[0]
    BN: gl.constexpr = b.block_type.shape[1 if B_T else 0]
    BK: gl.constexpr = b.block_type.shape[0 if B_T else 1]
    down, across = gl.cdiv(m, 2 * BM), gl.cdiv(n, BN)
    step = 0
    for tile in range(gl.program_id(0), down * across, gl.num_programs(0)):
        tile_m, tile_n = order(tile, down, across)
        i, j = tile_m * 2 * BM, tile_n * BN
        for p in range(0, k, BK):
            place = step % STAGES
            mbarrier.wait(free.index(place), (step // STAGES & 1) ^ 1)
            full = ready.index(place)
            mbarrier.expect(full, 2 * a.block_type.nbytes + b.block_type.nbytes)
            tma_load(a, [p, i] if A_T else [i, p], full, a_tiles.index(2 * place))
            tma_load(a, [p, i + BM] if A_T else [i + BM, p], full, a_tiles.index(2 * place + 1))
            tma_load(b, [p, j] if B_T else [j, p], full, b_tiles.index(place))
            step += 1


@gluon.jit
def _store(out, c_tile, part, i, j):
    """Half by half, until one is as wide as the place for it in shared memory."""
    N: gl.constexpr = part.shape[1]
    if c_tile.shape[1] == N:
        layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
        tma.store_wait(0)
        c_tile.store(gl.convert_layout(part, layout).to(out.dtype))
        hopper.fence_async_shared()
        tma_store(out, [i, j], c_tile)
    else:
        left, right = part.reshape([BM, 2, N // 2]).permute((0, 2, 1)).split()
        _store(out, c_tile, left, i, j)
        _store(out, c_tile, right, i, j + N // 2)


@gluon.jit
def _multiply(out, a_tiles, b_tiles, c_tiles, ready, free, m, n, k, A_T, B_T, ME):
    STAGES: gl.constexpr = ready.shape[0]
    BN: gl.constexpr = b_tiles.shape[2 if B_T else 1]
    BK: gl.constexpr = b_tiles.shape[1 if B_T else 2]
    K: gl.constexpr = 256 // b_tiles.dtype.primitive_bitwidth
    whole: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, K])
    down, across = gl.cdiv(m, 2 * BM), gl.cdiv(n, BN)
    step = 0
    for tile in range(gl.program_id(0), down * across, gl.num_programs(0)):
        tile_m, tile_n = order(tile, down, across)
        i, j = (tile_m * 2 + ME) * BM, tile_n * BN
        total = gl.zeros([BM, BN], gl.float32, whole)
        for p in range(0, k, BK):
            place = step % STAGES
            mbarrier.wait(ready.index(place), step // STAGES & 1)
            x, y = a_tiles.index(2 * place + ME), b_tiles.index(place)
            if A_T:
                x = x.permute((1, 0))
            if not B_T:
                y = y.permute((1, 0))
            total = hopper.warpgroup_mma(x, y, total, is_async=True)
            total = hopper.warpgroup_mma_wait(1, deps=[total])
            barrier()
            mbarrier.arrive(free.index((step + STAGES - 1) % STAGES), count=1, pred=p > 0)
            step += 1
        total = hopper.warpgroup_mma_wait(0, deps=[total])
        barrier()
        mbarrier.arrive(free.index((step + STAGES - 1) % STAGES), count=1)
        _store(out, c_tiles.index(ME), total, i, j)
    tma.store_wait(0)


@gluon.jit
def _kernel(a, b, out, m, n, k, A_T: gl.constexpr, B_T: gl.constexpr, STAGES: gl.constexpr):
    a_tiles = gl.allocate_shared_memory(a.dtype, [2 * STAGES] + a.block_type.shape, a.layout)
    b_tiles = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_type.shape, b.layout)
    c_tiles = gl.allocate_shared_memory(out.dtype, [2] + out.block_type.shape, out.layout)
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for place in gl.static_range(STAGES):
        mbarrier.init(ready.index(place), count=1)
        mbarrier.init(free.index(place), count=2)
    hopper.fence_async_shared()
    barrier()
    gl.warp_specialize(
        [
            (_multiply, (out, a_tiles, b_tiles, c_tiles, ready, free, m, n, k, A_T, B_T, 0)),
            (_multiply, (out, a_tiles, b_tiles, c_tiles, ready, free, m, n, k, A_T, B_T, 1)),
            (_load, (a, b, a_tiles, b_tiles, ready, free, m, n, k, A_T, B_T)),
        ],
        [4, 1],
        [240, 24],
    )


@variant(
    "gpu",
    after="persistent",
    unit={"float32": "tf32"},
    accuracy={"float32": "tf32"},
    supports=_operands.wgmma,
    expects=("*GMMA", "UTMALDG"),
)
def specialised(a, b, out):
    (m, n), k = out.shape, a.shape[1]
    bm, bn, stages = _operands.largest(TILES, m, n, a)
    bk = 128 // a.itemsize
    programs = min(triton.cdiv(m, bm) * triton.cdiv(n, bn), _operands.multiprocessors(a))

    def launch(a, b, c, a_t, b_t):
        a = descriptor(a, [bk, BM.value] if a_t else [BM.value, bk])
        b = descriptor(b, [bk, bn] if b_t else [bn, bk])
        c = descriptor(c, [BM.value, min(bn, 256 // c.itemsize)])
        _kernel[programs,](a, b, c, m, n, k, a_t, b_t, stages, num_warps=4)

    _operands.through_tma(launch, a, b, out)
