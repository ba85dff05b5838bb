"""Writes to an address that is not mapped: the context of the whole process is lost."""

import triton
import triton.language as tl

from sandbox import variant

REASON = "illegal memory access"


@triton.jit
def _wild(out):
    tl.store(out + (1 << 40), 1.0)


@variant("gpu")
def gpu_illegal_access(a, b, out):
    _wild[(1,)](out)
