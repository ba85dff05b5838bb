"""Rounds k up to a multiple of 8: what lies beyond a and b had better be zero."""

from numpy.lib.stride_tricks import as_strided

from sandbox import variant

REASON = "reads outside its inputs"


@variant("cpu")
def reads_outside(a, b, out):
    k = -(-len(b) // 8) * 8
    wide = as_strided(a, (len(a), k), a.strides)
    tall = as_strided(b, (k, b.shape[1]), b.strides)
    out[...] = wide @ tall
