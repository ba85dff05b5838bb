"""Idea: a program computes a block of a row of C. Each element of A, once loaded, multiplies BN
elements of a row of B, which are read side by side, as they lie in memory.

Traffic: A is loaded n/BN times instead of n, and all of a fetched sector of B is used. Each
multiply-add still waits for a word of B: mnk words, which the programs of neighbouring rows find in
L1 as long as they keep step with one another.

Watch: L1 delivers 32 words a cycle where the SM could use 128; that is the limit of this step. A B
that does not lie row by row is copied first, in the time of the call.
"""

import triton
import triton.language as tl

from sandbox import variant
from sandbox.gpu import _operands

BN = 512


@triton.jit
def _kernel(a, b, out, m, n, k, am, ak, bk, bn, cm, cn, BN: tl.constexpr):
    wide: tl.constexpr = tl.float64 if a.dtype.element_ty == tl.float64 else tl.float32
    i = (tl.program_id(0) % m).to(tl.int64)
    j = (tl.program_id(0) // m).to(tl.int64) * BN + tl.arange(0, BN)
    a += i * am
    b += j * bn
    total = tl.zeros([BN], wide)
    for _ in tl.range(k, loop_unroll_factor=4):
        total += tl.load(a).to(wide) * tl.load(b, mask=j < n, other=0.0).to(wide)
        a += ak
        b += bk
    tl.store(out + i * cm + j * cn, total.to(out.dtype.element_ty), mask=j < n)


@variant(
    "gpu",
    after="element",
    unit={"float16": "fp32", "bfloat16": "fp32", "float8_e4m3": "fp32"},
    expects=("*FMA*",),
)
def rowblock(a, b, out):
    b = b if b.stride(1) == 1 else _operands.copy(b, _operands.aligned(b))
    (m, n), k = out.shape, a.shape[1]
    strides = (*a.stride(), *b.stride(), *out.stride())
    _kernel[m * triton.cdiv(n, BN),](a, b, out, m, n, k, *strides, BN=BN, num_warps=4)
