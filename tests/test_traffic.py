"""Simulated traffic against simulators that are as simple as can be, and against hand counts."""

from collections import OrderedDict
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.traffic.levels import Cache
from sandbox.traffic.caches import Hierarchy
from sandbox.traffic.distances import Distances
from sandbox.traffic.optimal import Accesses

QUIET = settings(max_examples=60, derandomize=True, deadline=None, database=None)


def records(accesses):
    """(address, bytes, store) as a batch of a stream."""
    return np.array([a | size << 48 | (-(1 << 63) if s else 0) for a, size, s in accesses], np.int64)


def fed(consumer, accesses):
    for part in np.array_split(records(accesses), 3):
        consumer(part, 1 + max(a + size for a, size, _ in accesses) // 4096)
    return consumer


def units(accesses, size):
    return [(u, s) for a, n, s in accesses for u in range(a // size, (a + n - 1) // size + 1)]


ACCESS = st.tuples(st.integers(0, 60).map(lambda x: 4 * x), st.sampled_from([4, 8, 32]), st.booleans())
STREAMS = st.lists(ACCESS, min_size=1, max_size=200)


def lru(stream, capacity, word):
    """Units moved by one LRU cache, access by access."""
    cache, moved = OrderedDict(), 0
    for unit, store in stream:
        if unit not in cache:
            moved += not (word and store)
            if len(cache) == capacity:
                moved += cache.popitem(last=False)[1]
        cache[unit] = cache.pop(unit, False) or store
    return moved + sum(cache.values())


@QUIET
@given(STREAMS, st.sampled_from([(4, True), (64, False), (16, False)]), st.data())
def test_stack_distances_are_lru_at_every_size(accesses, unit, data):
    size, word = unit
    capacities = sorted(data.draw(st.sets(st.integers(1, 40), min_size=1, max_size=9)))
    found = fed(Distances([c * size for c in capacities], size, word), accesses).moved_bytes()
    stream = units(accesses, size)
    assert found == [size * lru(stream, c, word) for c in capacities]


def fewest(stream, capacity, word):
    """Fetches of the best of all replacements, tried one and all."""
    states = {(): 0}
    for unit, store in stream:
        following = {}
        for held, cost in states.items():
            choices = [held]
            if unit not in held:
                cost += not (word and store)
                choices = [(*held, unit)]
                if len(held) == capacity:
                    choices = [(*(h for h in held if h != x), unit) for x in held]
            for choice in map(tuple, map(sorted, choices)):
                following[choice] = min(cost, following.get(choice, cost))
        states = following
    return min(states.values())


TINY = st.lists(st.tuples(st.integers(0, 5).map(lambda x: 4 * x), st.just(4), st.just(False)), min_size=1, max_size=14)


@QUIET
@given(TINY, st.integers(1, 5))
def test_optimal_replacement_fetches_least_of_all(accesses, capacity):
    (found,) = fed(Accesses(4, True), accesses).moved_bytes([4 * capacity])
    assert found == 4 * fewest(units(accesses, 4), capacity, True)


@QUIET
@given(STREAMS, st.integers(1, 40))
def test_optimal_replacement_writes_what_is_dirty(accesses, capacity):
    stream = units(accesses, 4)
    (found,) = fed(Accesses(4, True), accesses).moved_bytes([4 * capacity])
    cache, moved = {}, 0
    for t, (unit, store) in enumerate(stream):
        if unit not in cache:
            moved += not store
            if len(cache) == capacity:
                later = {u: next((x for x, (v, _) in enumerate(stream[t:]) if v == u), len(stream) + u) for u in cache}
                moved += cache.pop(max(later, key=later.get))
        cache[unit] = cache.get(unit, False) or store
    assert found == 4 * (moved + sum(cache.values()))
