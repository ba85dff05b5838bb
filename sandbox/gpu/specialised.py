"""Idea: warps with professions. One warp does nothing but ask TMA for tiles, as far ahead as shared
memory goes, across the ends of tiles of C too; eight do nothing but feed the tensor cores (wgmma).
Barriers in shared memory tell one that a tile is there, the other that its place is free.

Traffic: as in persistent. What goes is waiting: no warp that multiplies ever issues a copy, and the
next tile of C has its first operands before this one is stored.

Watch: registers. The eight warps hold 128 x 256 sums, the loading warp is left with 24 registers a
thread. A place may be freed when wgmma has read it, one step after it was issued.
"""

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from sandbox import variant
from sandbox.gpu import _operands
from sandbox.gpu._gluon_api import barrier, descriptor, from_triton, hopper, tma_load, tma_store
from sandbox.gpu.grouped import GROUP, order
from sandbox.gpu.persistent import TILES

order = from_triton(order)
mbarrier, tma = hopper.mbarrier, hopper.tma


@gluon.jit
def _load(
    a,
    b,
    a_tiles,
    b_tiles,
    ready,
    free,
    m,
    n,
    k,
    A_T: gl.constexpr,
    B_T: gl.constexpr,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
):
    down, across = gl.cdiv(m, BM), gl.cdiv(n, BN)
    step = 0
    for tile in range(gl.program_id(0), down * across, gl.num_programs(0)):
        tile_m, tile_n = order(tile, down, across, GROUP)
        i, j = tile_m * BM, tile_n * BN
        for p in range(0, k, BK):
            place = step % STAGES
            mbarrier.wait(free.index(place), (step // STAGES & 1) ^ 1)
            arrived = ready.index(place)
            mbarrier.expect(arrived, a.block_type.nbytes + b.block_type.nbytes)
            tma_load(a, [p, i] if A_T else [i, p], arrived, a_tiles.index(place))
            tma_load(b, [p, j] if B_T else [j, p], arrived, b_tiles.index(place))
            step += 1


@gluon.jit
def _multiply(
    out,
    a_tiles,
    b_tiles,
    c_tile,
    ready,
    free,
    m,
    n,
    k,
    A_T: gl.constexpr,
    B_T: gl.constexpr,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
):
    bits: gl.constexpr = a_tiles.dtype.primitive_bitwidth
    sums: gl.constexpr = gl.NVMMADistributedLayout(
        [3, 0], [gl.num_warps(), 1], [16, BN, 256 // bits]
    )
    half: gl.constexpr = gl.NVMMADistributedLayout(
        [3, 0], [gl.num_warps(), 1], [16, BN // 2, 256 // bits]
    )
    down, across = gl.cdiv(m, BM), gl.cdiv(n, BN)
    step = 0
    for tile in range(gl.program_id(0), down * across, gl.num_programs(0)):
        tile_m, tile_n = order(tile, down, across, GROUP)
        i, j = tile_m * BM, tile_n * BN
        total = gl.zeros([BM, BN], gl.float32, sums)
        for p in range(0, k, BK):
            place = step % STAGES
            mbarrier.wait(ready.index(place), step // STAGES & 1)
            x = a_tiles.index(place)
            y = b_tiles.index(place)
            if A_T:
                x = x.permute((1, 0))
            if not B_T:
                y = y.permute((1, 0))
            total = hopper.warpgroup_mma(x, y, total, precision="tf32", is_async=True)
            total = hopper.warpgroup_mma_wait(1, deps=[total])  # the step before is done
            barrier()
            mbarrier.arrive(free.index((step + STAGES - 1) % STAGES), count=1, pred=p > 0)
            step += 1
        total = hopper.warpgroup_mma_wait(0, deps=[total])
        barrier()
        mbarrier.arrive(free.index((step + STAGES - 1) % STAGES), count=1)
        left, right = total.reshape([BM, 2, BN // 2]).permute((0, 2, 1)).split()
        tma.store_wait(0)
        c_tile.store(gl.convert_layout(left, half).to(out.dtype))
        hopper.fence_async_shared()
        tma_store(out, [i, j], c_tile)
        tma.store_wait(0)
        c_tile.store(gl.convert_layout(right, half).to(out.dtype))
        hopper.fence_async_shared()
        tma_store(out, [i, j + BN // 2], c_tile)
    tma.store_wait(0)


@gluon.jit
def _kernel(
    a,
    b,
    out,
    m,
    n,
    k,
    A_T: gl.constexpr,
    B_T: gl.constexpr,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
):
    a_tiles = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_type.shape, a.layout)
    b_tiles = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_type.shape, b.layout)
    c_tile = gl.allocate_shared_memory(out.dtype, out.block_type.shape, out.layout)
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for place in gl.static_range(STAGES):
        mbarrier.init(ready.index(place), count=1)
        mbarrier.init(free.index(place), count=1)
    hopper.fence_async_shared()
    barrier()
    gl.warp_specialize(
        [
            (
                _multiply,
                (
                    out,
                    a_tiles,
                    b_tiles,
                    c_tile,
                    ready,
                    free,
                    m,
                    n,
                    k,
                    A_T,
                    B_T,
                    BM,
                    BN,
                    BK,
                    STAGES,
                    GROUP,
                ),
            ),
            (
                _load,
                (a, b, a_tiles, b_tiles, ready, free, m, n, k, A_T, B_T, BM, BN, BK, STAGES, GROUP),
            ),
        ],
        [1],
        [24],
    )


@variant(
    "gpu",
    after="persistent",
    unit={"float32": "tf32"},
    accuracy={"float32": "tf32"},
    supports=_operands.wgmma,
)
def specialised(a, b, out):
    (m, n), k = out.shape, a.shape[1]
    bm, bn, stages = _operands.largest(TILES, m, n, a)
    bk = 128 // a.itemsize
    programs = min(triton.cdiv(m, bm) * triton.cdiv(n, bn), _operands.multiprocessors(a))

    def launch(a, b, c, a_t, b_t):
        a = descriptor(a, [bk, bm] if a_t else [bm, bk])
        b = descriptor(b, [bk, bn] if b_t else [bn, bk])
        c = descriptor(c, [bm, bn // 2])
        _kernel[programs,](
            a, b, c, m, n, k, a_t, b_t, bm, bn, bk, stages, GROUP, num_warps=bm // 16
        )

    _operands.through_tma(launch, a, b, out)
