"""Idea: what a compiler for a GPU has to show.

Traffic: of no interest.

Watch: `dot` launches a kernel that fills out, then one that adds the product; `crowded` needs more
registers than it may use, `large` more shared memory than a GPU has.
"""

import triton
import triton.language as tl

from sandbox import variant


@triton.jit
def fill(c, size, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + i, tl.zeros([BLOCK], c.dtype.element_ty), mask=i < size)


@triton.jit
def multiply(a, b, c, k, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    j = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    p = tl.arange(0, BK)
    total = tl.load(c + i * n + j).to(tl.float32)
    for _ in range(0, k, BK):
        x, y = tl.load(a + i * k + p[None, :]), tl.load(b + p[:, None] * n + j)
        total = tl.dot(x, y, total, input_precision="tf32")
        a += BK
        b += BK * n
    tl.store(c + i * n + j, total.to(c.dtype.element_ty))


@triton.jit
def centre(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i).to(tl.float32)
    tl.store(y + i, (values - tl.sum(values)).to(y.dtype.element_ty))


def launch(a, b, out, tile, **options):
    (m, n), k = out.shape, a.shape[1]
    assert out.is_cuda
    assert out.device == a.new_empty(1, device="cuda").device
    fill[triton.cdiv(m * n, 1024),](out, m * n, 1024)
    grid = m // tile, n // tile
    for _ in range(2):  # the same again
        multiply[grid](a, b, out, k, n, tile, tile, 64, **options)


@variant("gpu", expects=("*MMA", "LDGSTS"))
def dot(a, b, out):
    launch(a, b, out, 64, num_warps=4, num_stages=3)


@variant("gpu", expects=("STL", "*MMA", "UTMALDG|LDGSTS"))
def crowded(a, b, out):
    centre[1,](a, out, 4096, num_warps=1, maxnreg=32)


@variant("gpu")
def large(a, b, out):
    launch(a, b, out, 128, num_warps=8, num_stages=10)
