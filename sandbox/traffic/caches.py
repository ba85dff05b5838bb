"""A hierarchy of set-associative caches, and what an access stream moves through it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from sandbox.traffic.instrument import ADDRESS_BITS
from sandbox.traffic.levels import Cache
from sandbox.traffic.stream import ADDRESS, SIZE

_POLICY = {"": 0, "inclusive": 1, "victim": 2}
_INCLUSIVE, _VICTIM = _POLICY["inclusive"], _POLICY["victim"]


class Hierarchy:
    """Caches from the nearest on, empty at first; feed it batches, then ask what was moved.

    A set is a row of entries, the most recently used first. An entry is the number of a line above
    its lowest bit, which says that it is dirty. Raises ValueError where lines differ in size.
    """

    def __init__(self, caches: Sequence[Cache]) -> None:
        if len({c.line for c in caches}) != 1 or caches[0].line & (caches[0].line - 1):
            raise ValueError("the caches of a hierarchy have lines of one size, a power of two")
        self._line = caches[0].line
        lines = [c.sets * c.ways for c in caches]
        firsts = np.cumsum([0, *lines])
        rows = [
            (f, c.sets, c.ways, _POLICY[c.policy]) for f, c in zip(firsts, caches, strict=False)
        ]
        self._shape = np.array(rows, np.uint64)
        self._entries = np.full(sum(lines), -1, np.int32)
        self._fetched, self._written = np.zeros((2, len(caches)), np.int64)

    def __call__(self, records: np.ndarray, frames: int) -> None:
        """One batch of a `Stream`."""
        shift = self._line.bit_length() - 1
        _access(records, shift, self._shape, self._entries, self._fetched, self._written)

    def moved_bytes(self) -> list[int]:
        """Bytes between each cache and what lies behind it: fetched lines, and lines written back.

        A victim cache takes clean lines, too, which cross as well. In the end all is written back.
        """
        written = self._written.copy()
        _flush(self._shape, self._entries.copy(), written)
        return [int(lines) * self._line for lines in self._fetched + written]


@njit(cache=True, error_model="numpy")
def _start(shape, level, line):
    """Where the set of a line begins. Unsigned, as all indices here: then Numba checks no sign."""
    sets, number = shape[level, 1], np.uint64(line)
    at = number & (sets - np.uint64(1)) if sets & (sets - np.uint64(1)) == 0 else number % sets
    return shape[level, 0] + at * shape[level, 2]


@njit(cache=True, error_model="numpy")
def _put(entries, start, ways, entry):
    """Put an entry first, the others one back; returns what it replaces, or what falls out."""
    wanted = np.int32(entry | 1)
    old = entries[start]
    entries[start] = entry
    if np.int32(old | 1) == wanted:
        return old
    for w in range(np.uint64(1), ways):
        entry = entries[start + w]
        entries[start + w] = old
        old = entry
        if np.int32(entry | 1) == wanted:
            return old
    return old


@njit(cache=True, error_model="numpy")
def _find(entries, start, ways, line):
    """How far from the front of its set a line is; as many as there are ways where it is not."""
    for w in range(ways):
        if entries[start + w] >> 1 == line:
            return w
    return ways


@njit(cache=True, error_model="numpy")
def _take(entries, start, ways, line):
    """Take a line out of its set; returns 1 where it was dirty, -1 where it was not there."""
    w = _find(entries, start, ways, line)
    if w == ways:
        return -1
    dirty = entries[start + w] & 1
    for i in range(w + np.uint64(1), ways):
        entries[start + i - np.uint64(1)] = entries[start + i]
    entries[start + ways - np.uint64(1)] = -1
    return dirty


@njit(cache=True, error_model="numpy")
def _access(records, shift, shape, entries, fetched, written):
    levels = len(shape)
    for r in records:
        address, size = r & ADDRESS, (r >> ADDRESS_BITS) & SIZE
        line, last = address >> shift, address + size - 1 >> shift
        while line <= last:
            entry, level = np.int32(line << 1 | np.int32(r < 0)), 0
            while level < levels:
                start = _start(shape, level, line)
                old = _put(entries, start, shape[level, 2], entry)
                if old >> 1 == line:
                    entries[start] |= old & 1
                    break
                fetched[level] += 1
                victim = level + 1 < levels and shape[level + 1, 3] == _VICTIM
                found = victim and _promoted(shape, entries, level + 1, start)
                if old != -1 and (victim or old & 1 or shape[level, 3] == _INCLUSIVE):
                    _drop(shape, entries, written, level, old)
                if found:
                    break
                if victim:
                    level += 1
                    fetched[level] += 1
                level += 1
                entry = np.int32(line << 1)
            line += 1


@njit(cache=True, error_model="numpy")
def _promoted(shape, entries, level, place):
    """Was the line that was put in a place taken out of this victim cache, dirty or clean?"""
    line = entries[place] >> 1
    dirty = _take(entries, _start(shape, level, line), shape[level, 2], line)
    entries[place] |= max(dirty, 0)
    return dirty >= 0


@njit(cache=True, error_model="numpy")
def _drop(shape, entries, written, level, old):
    """What becomes of an entry that falls out of a level, and of what that pushes out further."""
    while old != -1:
        line = old >> 1
        if shape[level, 3] == _INCLUSIVE:
            for inner in range(level):
                if _take(entries, _start(shape, inner, line), shape[inner, 2], line) == 1:
                    written[inner:level] += 1
                    old |= 1
        level += 1
        takes_clean = level < len(shape) and shape[level, 3] == _VICTIM
        if old & 1 == 0 and not takes_clean:
            return
        written[level - 1] += 1
        if level == len(shape):
            return
        start, ways = _start(shape, level, line), shape[level, 2]
        w = _find(entries, start, ways, line)
        if w < ways:
            entries[start + w] |= old & 1
            return
        old = _put(entries, start, ways, old)


@njit(cache=True, error_model="numpy")
def _flush(shape, entries, written):
    levels = len(shape)
    for level in range(levels):
        for i in range(shape[level, 0], shape[level, 0] + shape[level, 1] * shape[level, 2]):
            outer, line = level, entries[i] >> 1
            while entries[i] != -1 and entries[i] & 1 and outer < levels:
                written[outer] += 1
                outer += 1
                if outer < levels:
                    start, ways = _start(shape, outer, line), shape[outer, 2]
                    w = _find(entries, start, ways, line)
                    if w < ways:
                        entries[start + w] |= 1
                        break
