"""Scales a in place and leaves it so."""

import numpy as np

from sandbox import variant

REASON = "changes its input a"


@variant("cpu")
def scales_input(a, b, out):
    a *= 2
    np.matmul(a, b, out=out)
    out /= 2
