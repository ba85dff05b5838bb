"""What a fully associative cache moves with optimal replacement, which knows the future.

It drops what is used again last of all (Belady, IBM Systems Journal 5(2), 1966), and so fetches the
least. Beside LRU it tells a kernel's schedule apart from the cache's luck.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import leading_zeros

from sandbox.traffic.instrument import ADDRESS_BITS
from sandbox.traffic.stream import ADDRESS, SIZE


class Accesses:
    """Keeps a whole stream, as numbers of units and whether each was stored: for small problems.

    Units and `word` are as in `Distances`.
    """

    def __init__(self, unit_bytes: int, word: bool) -> None:
        self._unit_bytes, self._word = unit_bytes, word
        self._parts: list[np.ndarray] = []

    def __call__(self, records: np.ndarray, frames: int) -> None:
        """One batch of a `Stream`."""
        self._parts.append(_units(records, self._unit_bytes.bit_length() - 1))

    def moved_bytes(self, cache_bytes: Sequence[int]) -> list[int]:
        """Bytes fetched and written back at each size; in the end all that is dirty is written."""
        stream = np.concatenate(self._parts)
        following = _following(stream)
        sizes = [size // self._unit_bytes for size in cache_bytes]
        return [_belady(stream, following, x, self._word) * self._unit_bytes for x in sizes]


@njit(cache=True, error_model="numpy")
def _units(records, shift):
    count = 0
    for r in records:
        address, size = r & ADDRESS, (r >> ADDRESS_BITS) & SIZE
        count += (address + size - 1 >> shift) - (address >> shift) + 1
    out, made = np.empty(count, np.int32), 0
    for r in records:
        address, size = r & ADDRESS, (r >> ADDRESS_BITS) & SIZE
        for unit in range(address >> shift, (address + size - 1 >> shift) + 1):
            out[made] = unit << 1 | (r < 0)
            made += 1
    return out


@njit(cache=True, error_model="numpy")
def _following(stream):
    """When each access's unit is accessed next; if never, at a time of its own after the end."""
    units = stream.max() // 2 + 1
    when = stream.size + np.arange(units)
    out = np.empty(stream.size, np.int64)
    for t in range(stream.size - 1, -1, -1):
        unit = stream[t] >> 1
        out[t], when[unit] = when[unit], t
    return out


@njit(cache=True, error_model="numpy")
def _belady(stream, following, size, word):
    """Units fetched and written. What is cached is known by the time of its next use: a set of
    times, as bits in words of 64, with a bit for each word that is not 0 above it, and so on."""
    units = stream.max() // 2 + 1
    times = stream.size + units
    starts, total, width = [0], 0, times
    while True:
        width = (width + 63) // 64
        total += width
        starts.append(total)
        if width == 1:
            break
    bits, levels = np.zeros(total, np.uint64), len(starts) - 1
    cached, dirty = np.zeros(units, np.bool_), np.zeros(units, np.bool_)
    held = moved = 0
    for t in range(stream.size):
        unit, store = stream[t] >> 1, stream[t] & 1 == 1
        gone = t
        if not cached[unit]:
            moved += not (store and word)
            held += 1
            gone = -1
            if held > size:
                held -= 1
                gone = 0
                for level in range(levels - 1, -1, -1):  # the last time in the set
                    found = bits[starts[level] + gone]
                    gone = gone * 64 + 63 - int(leading_zeros(found))
                last = stream[gone] >> 1 if gone < stream.size else gone - stream.size
                moved += dirty[last]
                cached[last] = dirty[last] = False
        if gone >= 0:
            for level in range(levels):
                place = starts[level] + gone // 64
                bits[place] &= ~(np.uint64(1) << np.uint64(gone % 64))
                if bits[place] != 0:
                    break
                gone //= 64
        coming = following[t]
        for level in range(levels):
            place, before = starts[level] + coming // 64, bits[starts[level] + coming // 64]
            bits[place] = before | np.uint64(1) << np.uint64(coming % 64)
            if before != 0:
                break
            coming //= 64
        cached[unit] = True
        dirty[unit] |= store
    return moved + dirty.sum()
