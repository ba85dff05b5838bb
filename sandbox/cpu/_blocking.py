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

MR, NR_BYTES = HOST.rows[3], 3 * VECTOR_BYTES


class Blocking(NamedTuple):
    """KC in bytes of a row of A, MC in rows of A, NC in bytes of a row of B; for all types."""

    kc_bytes: int
    mc: int
    nc_bytes: int


def modelled(ways: dict[int, tuple[int, int]]) -> Blocking:
    """The model's choice for caches given as {level: (ways, bytes of one way)}, for L1, L2, L3.

    Equations 4 to 6 of the paper: in L1 the NR columns of B stay, beside as many ways of A as share
    the rest and one way for C; in L2 the block of A stays, beside NR columns of B; in L3 the
    panel of B, beside the block of A. Without an L3, B's panel is as large as half of L2 is wide.
    """
    (ways1, way1), (ways2, way2) = ways[1], ways[2]
    ways3, way3 = ways.get(3, (ways2, way2))
    of_a = max(1, int((ways1 - 1) / (1 + NR_BYTES / (MR * 4))))  # float32: NR / MR in words
    kc_bytes = of_a * way1 // MR
    of_b = -(-NR_BYTES * kc_bytes // 4 // way2)
    mc = max(1, ways2 - 1 - of_b) * way2 // kc_bytes
    of_block = -(-mc * kc_bytes // way3)
    nc_bytes = 4 * (max(1, ways3 - 1 - of_block) * way3 // kc_bytes)
    return Blocking(kc_bytes, mc // MR * MR, nc_bytes // NR_BYTES * NR_BYTES)


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
