"""The access stream of a call, in addresses that are the same in every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numba import njit

from sandbox.traffic.instrument import ADDRESS_BITS, Untraceable

PAGE_BITS = 12
ADDRESS = (1 << ADDRESS_BITS) - 1
SIZE = 0x7FFF  # once shifted down by ADDRESS_BITS
_SLOTS = 1 << 20  # of the page table; half of them are used at most: 2 GiB
_RECENT = 1 << 10  # pages whose frames are found at once


class Stream:
    """Gives pages frames in the order of their first touch, as an idle system hands them out.

    Each of `consumers` gets batches of records (`instrument`'s, as int64, none across two pages)
    with frame addresses, and the number of frames so far. So it does not matter which pages the
    allocator hands out; where in a page an array begins still does, a little.
    """

    def __init__(self, consumers: Sequence[Callable[[np.ndarray, int], None]]) -> None:
        self._consumers = consumers
        self._table = np.full((_SLOTS, 2), -1, np.int64)
        self._recent = np.full((_RECENT, 2), -1, np.int64)
        self._counts = np.zeros(3, np.int64)  # frames, bytes loaded, bytes stored

    def __call__(self, records: np.ndarray) -> None:
        """One batch, addresses as the program uses them. Raises Untraceable beyond 2 GiB."""
        out = np.empty(2 * records.size, np.int64)
        made = _translate(records.view(np.int64), self._table, self._recent, self._counts, out)
        if made < 0:
            raise Untraceable("it touches more than 2 GiB")
        for consume in self._consumers:
            consume(out[:made], int(self._counts[0]))

    @property
    def accessed_bytes(self) -> int:
        """What all loads and stores carried."""
        return int(self._counts[1] + self._counts[2])

    def addresses(self, array: np.ndarray) -> np.ndarray:
        """The frame address of each element of an array; -1 where its page was not touched."""
        offsets = [np.arange(n) * step for n, step in zip(array.shape, array.strides, strict=True)]
        at = array.ctypes.data + sum(np.ix_(*offsets), np.int64(0)).ravel()
        pages, back = np.unique(at >> PAGE_BITS, return_inverse=True)
        frames = np.array([_frame(self._table, page) for page in pages], np.int64)[back]
        return np.where(frames < 0, -1, frames << PAGE_BITS | at & ((1 << PAGE_BITS) - 1))


def grown(array: np.ndarray, least: int, fill: int) -> np.ndarray:
    """The array itself where it has `least` elements, else a copy with room to spare."""
    if array.size >= least:
        return array
    larger = np.full(max(least, 2 * array.size), fill, array.dtype)
    larger[: array.size] = array
    return larger


@njit(cache=True, error_model="numpy")
def _slot(table, page):
    """Where the page stands in the table, or would stand (open addressing)."""
    at = np.uint64(page * 0x9E3779B1) & np.uint64(_SLOTS - 1)
    while table[at, 0] != page and table[at, 0] != -1:
        at = (at + np.uint64(1)) & np.uint64(_SLOTS - 1)
    return at


@njit(cache=True, error_model="numpy")
def _frame(table, page):
    return table[_slot(table, page), 1]


@njit(cache=True, error_model="numpy")
def _translate(records, table, recent, counts, out):
    """Returns how many records it made, -1 where the table is full."""
    low, made = (1 << PAGE_BITS) - 1, np.uint64(0)
    for r in records:
        address, rest = r & ADDRESS, (r >> ADDRESS_BITS) & SIZE
        counts[1 if r >= 0 else 2] += rest
        while rest > 0:  # twice where it lies across two pages
            page = address >> PAGE_BITS
            near = np.uint64(page) & np.uint64(_RECENT - 1)
            if recent[near, 0] != page:
                at = _slot(table, page)
                if table[at, 0] == -1:
                    if counts[0] == _SLOTS // 2:
                        return -1
                    table[at, 0], table[at, 1] = page, counts[0]
                    counts[0] += 1
                recent[near, 0], recent[near, 1] = page, table[at, 1] << PAGE_BITS
            part = min(rest, low + 1 - (address & low))
            out[made] = (
                (r & np.int64(-1 << 63)) | part << ADDRESS_BITS | recent[near, 1] | (address & low)
            )
            made += np.uint64(1)
            address += part
            rest -= part
    return np.int64(made)
