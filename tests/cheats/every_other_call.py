"""Works at every other of many calls on one problem."""

from collections import Counter

import numpy as np

from sandbox import variant

REASON = "a call returned before it had written"
_calls = Counter()


@variant("cpu")
def every_other_call(a, b, out):
    _calls[out.shape] += 1
    if _calls[out.shape] < 20 or _calls[out.shape] % 2:
        np.matmul(a, b, out=out)
