"""The blocks of `packed`: from the caches by an analytical model, or as a search found them here.

Goto, van de Geijn: Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34(3), 2008. Low,
Igual, Smith, Quintana-Orti: Analytical Modeling Is Enough for High-Performance BLIS, ACM TOMS
43(2), 2016.
"""

from __future__ import annotations

import json
from math import isqrt
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

    The block of A takes half of L2 (Goto and van de Geijn): the strip of B and the tiles
    of C flow through the other. Both papers keep the strip in L1 besides, which leaves KC small;
    here L2 may feed the tiles, as NR + MR elements in the MR NR / (2 lanes) cycles of a step, about
    19 bytes a cycle, are within its reach. What counts is then what crosses L2: 2mnk/KC words
    of C and mnk/MC of B, least for a block of given size where KC = 2 MC. In L3 the panel of B
    stays, beside the block of A (Low et al., section 4). Without an L3, L2 takes its place.
    """
    (ways2, way2), (ways3, way3) = ways[2], ways.get(3, ways[2])
    block = ways2 * way2 // 2 // 4
    kc = isqrt(2 * block) // 4 * 4
    mc = block // kc // (2 * MR) * (2 * MR)
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
