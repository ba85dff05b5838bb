"""Is right, until it is called on one problem for the sixth time."""

import numpy as np

from sandbox import variant

REASON = "while it was timed"
_last, _calls = None, 0


@variant("cpu")
def lazy(a, b, out):
    global _last, _calls
    _calls = _calls + 1 if _last == out.shape else 1
    _last = out.shape
    if _calls < 6:
        np.matmul(a, b, out=out)
