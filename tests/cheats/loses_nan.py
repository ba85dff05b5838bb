"""Replaces what is not a number, as fast arithmetic may."""

import numpy as np

from sandbox import variant

REASON = "nonfinite numbers"


@variant("cpu")
def loses_nan(a, b, out):
    out[...] = np.nan_to_num(a @ b, posinf=np.inf, neginf=-np.inf)
