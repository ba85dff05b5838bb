"""Idea: the definition. One program computes one element of C: the dot product of a row of A and a
column of B, as one writes it when one has just learnt to program a GPU.

Traffic: nothing is kept, so 2mnk words are loaded. A row of A is read in its order in memory; a
column of B jumps n words at every step, and each jump fetches a sector of 32 bytes for the 4 that
are used. Neighbouring programs find some of it in the caches.

Watch: a program is launched for every element, and there are at most 2^31 - 1 of them.
"""

import triton
import triton.language as tl

from sandbox import variant

BK = 256  # terms that a program adds up side by side


@triton.jit
def _kernel(a, b, out, n, k, am, ak, bk, bn, cm, cn, BK: tl.constexpr):
    wide: tl.constexpr = tl.float64 if a.dtype.element_ty == tl.float64 else tl.float32
    i = (tl.program_id(0) // n).to(tl.int64)
    j = (tl.program_id(0) % n).to(tl.int64)
    total = tl.zeros([BK], wide)
    for p0 in range(0, k, BK):
        p = p0 + tl.arange(0, BK).to(tl.int64)
        x = tl.load(a + i * am + p * ak, mask=p < k, other=0.0)
        y = tl.load(b + p * bk + j * bn, mask=p < k, other=0.0)
        total += x.to(wide) * y.to(wide)
    tl.store(out + i * cm + j * cn, tl.sum(total).to(out.dtype.element_ty))


def _supports(problem):
    too_many = problem.m * problem.n >= 2**31
    return "more elements than a grid has programs" if too_many else ""


@variant(
    "gpu",
    unit={"float16": "fp32", "bfloat16": "fp32", "float8_e4m3": "fp32"},
    supports=_supports,
    expects=("*FMA*",),
)
def element(a, b, out):
    (m, n), k = out.shape, a.shape[1]
    strides = (*a.stride(), *b.stride(), *out.stride())
    _kernel[m * n,](a, b, out, n, k, *strides, BK=BK, num_warps=1)
