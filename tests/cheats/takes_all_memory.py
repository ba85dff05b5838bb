"""Takes memory until it is ended."""

import time

import numpy as np

from sandbox import variant

REASON = "GiB of memory during verification"


@variant("cpu")
def takes_all_memory(a, b, out):
    hoard = []
    while True:
        hoard.append(np.ones(1 << 21))
        time.sleep(0.002)
