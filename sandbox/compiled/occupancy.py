"""How many blocks of a kernel fit on a multiprocessor, and what keeps out one more.

CUDA C++ Programming Guide, "Technical specifications per compute capability".
"""

from __future__ import annotations

from dataclasses import dataclass

_REGISTERS = 65536  # of a multiprocessor, given out to warps in units of 256
_PARTS = 4  # each with a quarter of the registers and of the warps


@dataclass(frozen=True)
class Architecture:
    """What a multiprocessor holds, and how many of them a typical GPU has.

    A block gets at most `shared_bytes` of shared memory, and takes `RESERVED` beyond what it asks.
    """

    warps: int
    blocks: int
    shared_kib: int
    multiprocessors: int

    @property
    def shared_bytes(self) -> int:
        """The most that one block can have."""
        return self.shared_kib * 1024 - RESERVED


RESERVED = 1024
ARCHITECTURES = {
    80: Architecture(64, 32, 164, 108),  # A100
    86: Architecture(48, 16, 100, 84),  # A40
    89: Architecture(48, 24, 100, 142),  # L40S
    90: Architecture(64, 32, 228, 132),  # H100, H200
    100: Architecture(64, 32, 228, 148),  # B200
    120: Architecture(48, 24, 100, 188),  # RTX PRO 6000
}


def occupancy(
    architecture: Architecture, warps: int, registers: int, shared_bytes: int
) -> tuple[float, str]:
    """Of a block of so many warps, registers a thread and bytes of shared memory: the fraction of
    a multiprocessor's warps that can be resident, and what limits it: "registers",
    "shared memory", "warps" or "blocks"."""
    per_warp = -(-registers * 32 // 256) * 256
    resident = _REGISTERS // _PARTS // per_warp * _PARTS
    blocks = {
        "warps": architecture.warps // warps,
        "registers": resident // warps,
        "shared memory": architecture.shared_kib * 1024 // (shared_bytes + RESERVED),
        "blocks": architecture.blocks,
    }
    limit = min(blocks, key=lambda name: blocks[name])
    return blocks[limit] * warps / architecture.warps, limit
