"""Leaves the last row as it was."""

import numpy as np

from sandbox import variant

REASON = "the last row"


@variant("cpu")
def last_row(a, b, out):
    rows = max(1, len(a) - 1)
    np.matmul(a[:rows], b, out=out[:rows])
