"""Search the blocks of `packed` around the model's choice, and keep the fastest for this machine.

python -m experiments.blocking
"""

from __future__ import annotations

import random
import sys
from itertools import product
from statistics import median

import numba
import numpy as np

from sandbox.cpu import _blocking
from sandbox.cpu.packed import multiply
from sandbox.machine import detect
from sandbox.measure import clock

SIZES = (512, 1024, 1500)
ROUNDS = 15
WORTH = 0.98  # of the model's time: less of a gain is noise


def candidates(model: _blocking.Blocking) -> list[_blocking.Blocking]:
    """The model's choice first, then KC and MC a factor of up to two from it."""
    found = [model]
    for kc, mc in product((0.7, 1, 1.4), (0.5, 1, 1.5)):
        rows = round(model.mc * mc) // (2 * _blocking.MR) * 2 * _blocking.MR
        found.append(
            model._replace(kc=round(model.kc * kc) // 4 * 4, mc=max(rows, 2 * _blocking.MR))
        )
    return list(dict.fromkeys(found))


def main() -> int:
    """Print the median seconds of each, relative to the model's choice; store the best."""
    numba.set_num_threads(1)
    rng = np.random.default_rng(0)
    tried = candidates(_blocking.modelled(detect.cache_ways()))
    relative: dict[_blocking.Blocking, list[float]] = {x: [] for x in tried}
    for n in SIZES:
        a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
        out = np.empty((n, n), np.float32)
        seconds: dict[_blocking.Blocking, list[float]] = {x: [] for x in tried}
        for _ in range(ROUNDS):
            for x in random.sample(tried, len(tried)):
                start = clock()
                multiply(a[::1, ::1], b, out, *x)
                seconds[x].append(clock() - start)
        for x in tried:
            relative[x].append(median(seconds[x]) / median(seconds[tried[0]]))
    score = {x: float(np.prod(times)) ** (1 / len(SIZES)) for x, times in relative.items()}
    for x in sorted(score, key=score.__getitem__):
        print(f"{score[x]:.3f}  KC {x.kc}, MC {x.mc}, NC {x.nc}")
    best = min(score, key=score.__getitem__)
    if score[best] < WORTH:
        _blocking.keep(best)
        print(f"kept in {_blocking.path()}")
    else:
        _blocking.path().unlink(missing_ok=True)
        print("the model's choice stands")
    return 0


if __name__ == "__main__":
    sys.exit(main())
