"""What fully associative LRU caches of many sizes move, from one pass over an access stream.

By stack distances (Mattson et al., IBM Systems Journal 9(2), 1970), told apart by the sizes that
are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from sandbox.traffic.instrument import ADDRESS_BITS
from sandbox.traffic.stream import ADDRESS, PAGE_BITS, SIZE, grown

_NEW = 255  # the group of a unit that was never accessed


class Distances:
    """LRU traffic at each of some sizes, ascending, in units of `unit_bytes` (a power of two).

    Feed it batches of a `Stream`. With `word` a unit is a word of the pebble game: one that is
    stored need not be fetched. Else it is a line, fetched before a part of it is stored.

    The stack is a linked list, the most recent unit first. Its first sizes[0] units are group 0,
    those up to sizes[1] group 1, and so on: an access to group g misses in the caches before g, and
    moves one unit across each end of a group above it.
    """

    def __init__(self, cache_bytes: Sequence[int], unit_bytes: int, word: bool) -> None:
        self._unit_bytes, self._word = unit_bytes, word
        self._sizes = np.array([size // unit_bytes for size in cache_bytes], np.int64)
        self._before, self._after = np.zeros((2, 0), np.int32)
        self._group, self._dirty = np.zeros((2, 0), np.uint8)  # dirty: in the caches from that on
        self._ends = np.full(self._sizes.size, -1, np.int64)  # the last unit of each full group
        self._list = np.array([-1, -1, 0], np.int64)  # first, last, length
        self._fetched, self._written = np.zeros((2, self._sizes.size + 1), np.int64)

    def __call__(self, records: np.ndarray, frames: int) -> None:
        """One batch of a `Stream`."""
        shift = self._unit_bytes.bit_length() - 1
        units = frames << PAGE_BITS >> shift
        self._before, self._after = grown(self._before, units, -1), grown(self._after, units, -1)
        self._group, self._dirty = grown(self._group, units, _NEW), grown(self._dirty, units, 0)
        _access(
            records,
            shift,
            self._word,
            self._sizes,
            (self._before, self._after, self._group, self._dirty),
            (self._ends, self._list, self._fetched, self._written),
        )

    def moved_bytes(self) -> list[int]:
        """Bytes fetched and written back at each size; in the end all that is dirty is written."""
        caches = self._sizes.size
        misses = self._fetched.sum() - np.cumsum(self._fetched)[:caches]
        still_dirty = np.bincount(self._dirty[self._group != _NEW], minlength=caches + 1)
        written = np.cumsum(self._written + still_dirty)[:caches]
        return [int(units) * self._unit_bytes for units in misses + written]

    def footprint_bytes(self) -> int:
        """Bytes of all units that were accessed."""
        return int(self._list[2]) * self._unit_bytes

    def accessed(self, addresses: np.ndarray) -> bool:
        """Was everything at these frame addresses accessed?"""
        units = addresses[addresses >= 0] // self._unit_bytes
        return units.size == addresses.size and bool((self._group[units] != _NEW).all())


@njit(cache=True, error_model="numpy")
def _access(records, shift, word, sizes, of_units, of_all):
    before, after, group, dirty = of_units
    ends, whole, fetched, written = of_all
    caches = sizes.size
    for r in records:
        address, size, store = r & ADDRESS, (r >> ADDRESS_BITS) & SIZE, r < 0
        for unit in range(address >> shift, (address + size - 1 >> shift) + 1):
            first, old = whole[0], group[unit]
            if unit == first:
                if store:
                    dirty[unit] = 0
                continue
            missed, clean_to = caches, caches  # in how many caches, from the smallest on
            if old != _NEW:
                missed, clean_to = np.int64(old), np.int64(dirty[unit])
                previous, following = before[unit], after[unit]
                after[previous] = following
                if following >= 0:
                    before[following] = previous
                else:
                    whole[1] = previous
                if missed < caches and ends[missed] == unit:
                    ends[missed] = previous
                if clean_to < missed:  # those that dropped it while it was dirty
                    written[clean_to] += 1
                    written[missed] -= 1
            if not (store and word):
                fetched[missed] += 1
            dirty[unit] = 0 if store else max(clean_to, missed)
            before[unit], after[unit] = -1, first
            if first >= 0:
                before[first] = unit
            else:
                whole[1] = unit
            whole[0], group[unit] = unit, 0
            for g in range(missed):
                end = ends[g]
                if end < 0:  # not full before, perhaps now
                    if whole[2] + 1 == sizes[g]:
                        ends[g] = whole[1]
                    break
                group[end] = g + 1
                ends[g] = before[end]
            whole[2] += old == _NEW
