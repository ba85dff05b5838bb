"""Ends its process as if all were well."""

import os

from sandbox import variant

REASON = "exited with code 0 during verification"


@variant("cpu")
def exits_at_once(a, b, out):
    os._exit(0)
