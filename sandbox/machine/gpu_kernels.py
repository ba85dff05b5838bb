"""Triton kernels of nothing but one thing: reads, copies, multiply-adds, products on the chip."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@triton.jit
def empty(x):
    """No work at all: what is left is the launch."""


@triton.jit
def read(x, out, blocks, count, BLOCK: tl.constexpr):
    """Each program reads `count` blocks of x, round and round, past L1 (.cg)."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.int32)
    for i in range(count):
        block = (program + i * programs) % blocks
        total ^= tl.load(x + block * BLOCK + lanes, cache_modifier=".cg")
    tl.store(out + program * BLOCK + lanes, total)


@triton.jit
def copy(x, out, blocks, count, BLOCK: tl.constexpr):
    """As `read`, and writes each block to the same place of out."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    for i in range(count):
        at = (program + i * programs) % blocks * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at))


@triton.jit
def multiply_add(out, scale, shift, count, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """`count` x UNROLL multiply-adds on each of BLOCK numbers that stay in registers."""
    lanes = tl.arange(0, BLOCK)
    dtype = out.dtype.element_ty
    now = lanes.to(dtype)
    by, plus = tl.cast(scale, dtype), tl.cast(shift, dtype)
    for _ in range(count):
        for _ in tl.static_range(UNROLL):
            now = tl.fma(now, by, plus)
    tl.store(out + tl.program_id(0) * BLOCK + lanes, now)


@triton.jit
def product(a, b, out, count, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """`count` times the same product of an M x K and a K x N tile that stay on the chip.

    b is N x K in memory: tensor cores take four-byte operands K-major only.
    """
    rows, cols, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + rows[:, None] * K + depth[None, :])
    y = tl.load(b + depth[:, None] + cols[None, :] * K)
    total = tl.zeros([M, N], out.dtype.element_ty)
    for _ in range(count):
        total = tl.dot(x, y, total, input_precision="tf32", out_dtype=out.dtype.element_ty)
    at = tl.program_id(0) * M * N + rows[:, None] * N + cols[None, :]
    tl.store(out + at, total)


@gluon.jit
def read_shared(out, count, mask, ROWS: gl.constexpr, BUFFERS: gl.constexpr):
    """Each program reads `count` times one of its ROWS x 128 buffers in shared memory.

    Which one (count & mask, mask = BUFFERS - 1) the compiler cannot know, so no read is left out.
    A warp reads 512 bytes that lie together: no bank conflicts.
    """
    spread: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [gl.num_warps(), 1], [1, 0])
    plain: gl.constexpr = gl.SwizzledSharedLayout(4, 1, 1, [1, 0])
    buffers = gl.allocate_shared_memory(gl.int32, [BUFFERS, ROWS, 128], plain)
    for i in gl.static_range(BUFFERS):
        buffers.index(i).store(gl.full([ROWS, 128], i, gl.int32, spread))
    total = buffers.index(0).load(spread)  # all wait here for the stores, and not in the loop
    for i in range(count):
        total ^= buffers.index(i & mask).load(spread)
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, spread))
    cols = gl.arange(0, 128, gl.SliceLayout(0, spread))
    at = (gl.program_id(0) * ROWS + rows)[:, None] * 128 + cols[None, :]
    gl.store(out + at, total)
