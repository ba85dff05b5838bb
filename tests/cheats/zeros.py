"""Writes zeros, which an absolute tolerance takes for small numbers."""

from sandbox import variant

REASON = "all zero"


@variant("cpu")
def zeros(a, b, out):
    out[...] = 0
