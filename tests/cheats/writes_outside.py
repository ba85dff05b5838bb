"""Writes one element past the end of out."""

import numpy as np
from numpy.lib.stride_tricks import as_strided

from sandbox import variant

REASON = "writes outside out"


@variant("cpu")
def writes_outside(a, b, out):
    np.matmul(a, b, out=out)
    as_strided(out.reshape(-1), (out.size + 1,))[-1] = 0
