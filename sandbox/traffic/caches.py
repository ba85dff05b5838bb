"""A hierarchy of set-associative caches, and what an access stream moves through it.

Sets are searched and reordered eight entries at once, by vector instructions that LLVM has for
every processor. They and what is compiled with them stay in this file: Numba's cache looks at no
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from sandbox.traffic.instrument import ADDRESS_BITS
from sandbox.traffic.levels import Cache
from sandbox.traffic.stream import ADDRESS, SIZE

_POLICY = {"": 0, "inclusive": 1, "victim": 2}
_INCLUSIVE, _VICTIM = _POLICY["inclusive"], _POLICY["victim"]
_FIELDS = ("first", "sets", "ways", "row", "policy", "fetched", "written")
_LEVEL = np.dtype([(name, np.uint64) for name in _FIELDS])

_LANES = 8
_ONE, _ALL = np.uint64(1), np.uint64(_LANES)  # all indices are unsigned: Numba checks no sign then
# From a window that starts at 7 - i, the lanes up to i are set; at 16 - i, those from i on.
_WINDOWS = np.array([-1] * _LANES + [0] * _LANES + [-1] * _LANES, np.int32)
_INT, _LONG = ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_INT, _LANES)

# Else each call that is handed an array counts a reference to it.
_compiled = njit(cache=True, error_model="numpy", _nrt=False)


class Hierarchy:
    """Caches from the nearest on, empty at first; feed it batches, then ask what was moved.

    A set is a row of entries, the most recently used first, that is filled up to whole vectors. An
    entry is the number of a line above its lowest bit, which says that it is dirty; -1 is none.
    Raises ValueError where lines differ in size.
    """

    def __init__(self, caches: Sequence[Cache]) -> None:
        if len({c.line for c in caches}) != 1 or caches[0].line & (caches[0].line - 1):
            raise ValueError("the caches of a hierarchy have lines of one size, a power of two")
        self._line = caches[0].line
        levels, first = [], 0
        for c in caches:
            row = -(-c.ways // _LANES) * _LANES
            levels.append((first, c.sets, c.ways, row, _POLICY[c.policy], 0, 0))
            first += c.sets * row
        self._levels = np.array(levels, _LEVEL)
        self._entries = np.full(first, -1, np.int32)

    def __call__(self, records: np.ndarray, frames: int) -> None:
        """One batch of a `Stream`."""
        _access(records, self._line.bit_length() - 1, self._levels, self._entries)

    def moved_bytes(self) -> list[int]:
        """Bytes between each cache and what lies behind it: fetched lines, and lines written back.

        A victim cache takes clean lines, too, which cross as well. In the end all is written back.
        """
        levels = self._levels.copy()
        _flush(levels, self._entries.copy())
        return [int(lines) * self._line for lines in levels["fetched"] + levels["written"]]


def _pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    data = builder.inttoptr(builder.ptrtoint(data, _LONG), ir.PointerType())
    return builder.gep(data, [at], source_etype=_INT)


def _splat(builder: Any, x: Any) -> Any:
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), x, _INT(0))
    return builder.shuffle_vector(one, one, ir.Constant(_VECTOR, [0] * _LANES))


@intrinsic
def _lane(typing, entries, at, line):
    """In which of the eight entries from `at` on the line is; 8 where it is in none."""

    def generate(context, builder, signature, arguments):
        array, at, line = arguments
        place = _pointer(context, builder, signature.args[0], array, at)
        lines = builder.ashr(builder.load(place, typ=_VECTOR, align=4), _splat(builder, _INT(1)))
        same = builder.icmp_signed("==", lines, _splat(builder, line))
        bits = builder.zext(builder.bitcast(same, ir.IntType(_LANES)), _INT)
        bits = builder.or_(bits, _INT(1 << _LANES))
        return builder.zext(builder.cttz(bits, ir.IntType(1)(1)), _LONG)

    return types.uint64(entries, types.uint64, types.int32), generate


@intrinsic
def _back(typing, entries, at, entry, windows, window):
    """Those of the eight entries that the window names move one back; `entry` is the first."""
    return _moving(entries, windows, [_LANES, *range(_LANES - 1)])


@intrinsic
def _forward(typing, entries, at, entry, windows, window):
    """Those of the eight entries that the window names become the next one; `entry` is the last."""
    return _moving(entries, windows, [*range(1, _LANES + 1)])


def _moving(entries: Any, windows: Any, sources: list[int]) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, at, entry, windows, window = arguments
        place = _pointer(context, builder, signature.args[0], array, at)
        mask = _pointer(context, builder, signature.args[3], windows, window)
        old, mask = (builder.load(x, typ=_VECTOR, align=4) for x in (place, mask))
        new = builder.shuffle_vector(old, _splat(builder, entry), ir.Constant(_VECTOR, sources))
        # By a mask from memory: a select would become a masked store, which is slow on Zen.
        new = builder.or_(builder.and_(new, mask), builder.and_(old, builder.not_(mask)))
        builder.store(new, place, align=4)
        return context.get_dummy_value()

    index = types.uint64
    return types.void(entries, index, types.int32, windows, index), generate


@_compiled
def _start(cache, line):
    """Where the set of a line begins."""
    sets, number = cache.sets, np.uint64(line)
    at = number & (sets - _ONE) if sets & (sets - _ONE) == 0 else number % sets
    return cache.first + at * cache.row


@_compiled
def _find(entries, start, ways, line):
    """How far from the front of its set a line is; as many as there are ways where it is not."""
    done = np.uint64(0)
    while done < ways:
        lane = _lane(entries, start + done, line)
        if lane < _ALL:
            return done + lane
        done += _ALL
    return ways


@_compiled
def _push(entries, start, last, entry):
    """Put an entry first, those up to the last one back; returns what was the last."""
    while last >= _ALL:
        out = entries[start + _ALL - _ONE]
        _back(entries, start, entry, _WINDOWS, np.uint64(0))
        if out == -1:  # the last, before room that is empty
            return out
        entry = out
        start += _ALL
        last -= _ALL
    out = entries[start + last]
    _back(entries, start, entry, _WINDOWS, _ALL - _ONE - last)
    return out


@_compiled
def _take(entries, start, ways, line):
    """Take a line out of its set; returns 1 where it was dirty, -1 where it was not there."""
    w = _find(entries, start, ways, line)
    if w == ways:
        return np.int32(-1)
    dirty = entries[start + w] & np.int32(1)
    lane = w & (_ALL - _ONE)
    at, end = start + w - lane, start + ways
    while at + _ALL < end:
        _forward(entries, at, entries[at + _ALL], _WINDOWS, _ALL + _ALL - lane)
        at += _ALL
        lane = np.uint64(0)
    _forward(entries, at, np.int32(-1), _WINDOWS, _ALL + _ALL - lane)
    return dirty


@_compiled
def _access(records, shift, levels, entries):
    n = np.uint64(len(levels))
    for r in records:
        address, size = r & ADDRESS, (r >> ADDRESS_BITS) & SIZE
        line, last = address >> shift, address + size - 1 >> shift
        while line <= last:
            entry, level = np.int32(line << 1 | np.int32(r < 0)), np.uint64(0)
            while level < n:
                cache = levels[level]
                start, ways = _start(cache, line), cache.ways
                front = entries[start]
                if front >> 1 == line:  # most often
                    if entry & ~front:
                        entries[start] = entry
                    break
                w = _find(entries, start, ways, line)
                if w < ways:
                    _push(entries, start, w, np.int32(entry | entries[start + w] & 1))
                    break
                cache.fetched += _ONE
                level += _ONE
                victim, taken = level < n and levels[level].policy == _VICTIM, np.int32(-1)
                if victim:
                    taken = _take(entries, _start(levels[level], line), levels[level].ways, line)
                    if taken > 0:
                        entry |= np.int32(1)
                old = _push(entries, start, ways - _ONE, entry)
                if old != -1 and (victim or old & 1 or cache.policy == _INCLUSIVE):
                    _drop(levels, entries, level - _ONE, old)
                if taken >= 0:
                    break
                if victim:
                    levels[level].fetched += _ONE
                    level += _ONE
                entry = np.int32(line << 1)
            line += 1


@_compiled
def _drop(levels, entries, level, old):
    """What becomes of an entry that falls out of a level, and of what that pushes out further."""
    while old != -1:
        line = old >> 1
        if levels[level].policy == _INCLUSIVE:
            for inner in range(level):
                if _take(entries, _start(levels[inner], line), levels[inner].ways, line) == 1:
                    for crossed in range(inner, level):
                        levels[crossed].written += _ONE
                    old |= np.int32(1)
        outer = level + _ONE
        behind = outer < len(levels)
        if old & 1 == 0 and not (behind and levels[outer].policy == _VICTIM):
            return
        levels[level].written += _ONE
        if not behind:
            return
        level = outer
        start, ways = _start(levels[level], line), levels[level].ways
        w = _find(entries, start, ways, line)
        if w < ways:
            entries[start + w] |= old & 1
            return
        old = _push(entries, start, ways - _ONE, old)


@_compiled
def _flush(levels, entries):
    n = np.uint64(len(levels))
    for level in range(n):
        cache = levels[level]
        for i in range(cache.first, cache.first + cache.sets * cache.row):
            outer, line = np.uint64(level), entries[i] >> 1
            while entries[i] != -1 and entries[i] & 1 and outer < n:
                levels[outer].written += _ONE
                outer += _ONE
                if outer < n:
                    start, ways = _start(levels[outer], line), levels[outer].ways
                    w = _find(entries, start, ways, line)
                    if w < ways:
                        entries[start + w] |= 1
                        break
