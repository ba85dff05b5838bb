"""The blocks of `packed`: from the caches by an analytical model, or as a search found them here.

Low, Igual, Smith, Quintana-Orti: Analytical Modeling Is Enough for High-Performance BLIS, ACM TOMS
43(2), 2016.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from sandbox.cpu._emitter import HOST, VECTOR_BYTES
from sandbox.machine import detect
from sandbox.machine.here import store

MR, NR = HOST.rows[3], 3 * VECTOR_BYTES // 4


class Blocking(NamedTuple):
    """KC, MC, NC in elements of float32. For float64 NR, MC and NC are half, and KC is the same:
    the strip of B and the block of A then take as many bytes."""

    kc: int
    mc: int
    nc: int


def modelled(ways: dict[int, tuple[int, int]]) -> Blocking:
    """The model's choice for caches given as {level: (ways, bytes of one way)}, for L1, L2, L3.

    Section 4 of the paper: in L1 a strip of B (NR columns) stays, beside as many ways of A as share
    the rest and one way for C; in L2 the block of A, beside a strip of B; in L3 the panel of B,
    beside the block of A. Without an L3, L2 takes its place.
    """
    (ways1, way1), (ways2, way2) = ways[1], ways[2]
    ways3, way3 = ways.get(3, ways[2])
    of_a = max(1, (ways1 - 1) * MR // (MR + NR))
    kc = of_a * way1 // (4 * MR) // 4 * 4
    of_b = -(-4 * NR * kc // way2)
    mc = max(1, ways2 - 1 - of_b) * way2 // (4 * kc) // (2 * MR) * (2 * MR)
    of_block = -(-4 * mc * kc // way3)
    nc = max(1, ways3 - 1 - of_block) * way3 // (4 * kc)
    return Blocking(kc, max(mc, 2 * MR), max(nc // NR, 64) * NR)


def path() -> Path:
    """Where the search keeps what it found."""
    return store().with_name("blocking.json")


def stored() -> Blocking | None:
    """What the search found on this machine."""
    try:
        data = json.loads(path().read_text(encoding="utf-8"))
        return Blocking(**data["blocking"]) if data["machine"] == detect.fingerprint() else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def keep(found: Blocking) -> None:
    """Store what the search found; raises OSError where it cannot be written."""
    path().parent.mkdir(parents=True, exist_ok=True)
    data = {"machine": detect.fingerprint(), "blocking": found._asdict()}
    path().write_text(json.dumps(data), encoding="utf-8")


WAYS = detect.cache_ways()
L1_BYTES = WAYS[1][0] * WAYS[1][1]
BLOCKING = stored() or modelled(WAYS)
