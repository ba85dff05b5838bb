"""Never comes to declare itself."""

import time

from sandbox import variant

REASON = "no end of import within"
time.sleep(1000)


@variant("cpu")
def sleeps_in_import(a, b, out):
    pass
