"""Wants tiles that no SM has room for."""

import triton
import triton.language as tl

from sandbox import variant

REASON = "out of resource: shared memory"


@triton.jit
def _large(a, b, out, SIZE: tl.constexpr):
    i, j = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for k in range(0, 4):
        total = tl.dot(tl.load(a + i * SIZE + j + k), tl.load(b + i * SIZE + j + k), total)
    tl.store(out + i * SIZE + j, total)


@variant("gpu")
def gpu_too_much_shared_memory(a, b, out):
    _large[(1,)](a, b, out, SIZE=256, num_stages=4)
