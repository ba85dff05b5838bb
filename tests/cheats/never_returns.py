"""Never returns."""

import time

from sandbox import variant

REASON = "no end of verification within"


@variant("cpu")
def never_returns(a, b, out):
    while True:
        time.sleep(1)
