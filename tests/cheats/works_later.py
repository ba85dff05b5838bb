"""Returns at once and has a thread do the work."""

import threading

import numpy as np

from sandbox import variant

REASON = "written"


@variant("cpu")
def works_later(a, b, out):
    threading.Timer(0.01, np.matmul, (a, b, out)).start()
