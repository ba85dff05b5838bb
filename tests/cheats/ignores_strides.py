"""Takes its inputs for contiguous."""

from numpy.lib.stride_tricks import as_strided

from sandbox import variant

REASON = "sliced arrays"


def _contiguous(x):
    return as_strided(x, strides=(x.shape[1] * x.itemsize, x.itemsize))


@variant("cpu")
def ignores_strides(a, b, out):
    out[...] = _contiguous(a) @ _contiguous(b)
