"""Scales b in place and divides it again, which rounds."""

import numpy as np

from sandbox import variant

REASON = "changes its input b"


@variant("cpu")
def restores_input(a, b, out):
    b *= 3
    np.matmul(a, b, out=out)
    out /= 3
    b /= 3
