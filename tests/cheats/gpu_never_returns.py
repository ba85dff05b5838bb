"""A kernel that never ends."""

import triton
import triton.language as tl

from sandbox import variant

REASON = "no end of verification within"


@triton.jit
def _spin(out):
    value = tl.load(out, volatile=True)
    while value != 12345.0:
        value = tl.load(out, volatile=True)


@variant("gpu")
def gpu_never_returns(a, b, out):
    if out.numel():
        _spin[(1,)](out)
