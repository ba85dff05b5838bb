"""Simulated traffic against simulators that are as simple as can be, and against hand counts."""

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.traffic.caches import Hierarchy
from sandbox.traffic.distances import Distances
from sandbox.traffic.levels import Cache, boundaries, of_bytes, of_catalogue, of_this_machine
from sandbox.traffic.optimal import Accesses

QUIET = settings(max_examples=60, derandomize=True, deadline=None, database=None)


def records(accesses):
    """(address, bytes, store) as a batch of a stream."""
    return np.array(
        [a | size << 48 | (-(1 << 63) if s else 0) for a, size, s in accesses], np.int64
    )


def fed(consumer, accesses):
    for part in np.array_split(records(accesses), 3):
        consumer(part, 1 + max(a + size for a, size, _ in accesses) // 4096)
    return consumer


def units(accesses, size):
    return [(u, s) for a, n, s in accesses for u in range(a // size, (a + n - 1) // size + 1)]


ACCESS = st.tuples(
    st.integers(0, 60).map(lambda x: 4 * x), st.sampled_from([4, 8, 32]), st.booleans()
)
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


TINY = st.lists(
    st.tuples(st.integers(0, 5).map(lambda x: 4 * x), st.just(4), st.just(False)),
    min_size=1,
    max_size=14,
)


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
                later = {
                    u: next((x for x, (v, _) in enumerate(stream[t:]) if v == u), len(stream) + u)
                    for u in cache
                }
                moved += cache.pop(max(later, key=later.get))
        cache[unit] = cache.get(unit, False) or store
    assert found == 4 * (moved + sum(cache.values()))


class Simple:
    """A hierarchy of dictionaries: {line: dirty} for each set, the least recently used first."""

    def __init__(self, caches):
        self.caches, self.n = caches, len(caches)
        self.sets = [[OrderedDict() for _ in range(c.sets)] for c in caches]
        self.fetched, self.written = [0] * self.n, [0] * self.n

    def at(self, level, line):
        return self.sets[level][line % self.caches[level].sets]

    def policy(self, level):
        return self.caches[level].policy if level < self.n else ""

    def make_room(self, level, line):
        held = self.at(level, line)
        return held.popitem(last=False) if len(held) == self.caches[level].ways else None

    def access(self, line, dirty):
        level = 0
        while level < self.n:
            held = self.at(level, line)
            if line in held:
                held[line] |= dirty
                held.move_to_end(line)
                return
            self.fetched[level] += 1
            out = self.make_room(level, line)
            held[line], dirty = dirty, False
            behind = self.at(level + 1, line) if self.policy(level + 1) == "victim" else None
            found = behind is not None and line in behind
            if found:
                held[line] |= behind.pop(line)
            if out:
                self.drop(level, *out)
            if found:
                return
            if behind is not None:
                level += 1
                self.fetched[level] += 1
            level += 1

    def drop(self, level, line, dirty):
        if self.policy(level) == "inclusive":
            for inner in range(level):
                if self.at(inner, line).pop(line, False):
                    dirty = True
                    for crossed in range(inner, level):
                        self.written[crossed] += 1
        if dirty or self.policy(level + 1) == "victim":
            self.written[level] += 1
            if level + 1 < self.n:
                held = self.at(level + 1, line)
                if line in held:
                    held[line] |= dirty
                    return
                out = self.make_room(level + 1, line)
                held[line] = dirty
                if out:
                    self.drop(level + 1, *out)

    def moved(self):
        for level in range(self.n):
            for line, dirty in [x for held in self.sets[level] for x in held.items()]:
                outer = level
                while dirty and outer < self.n:
                    self.written[outer] += 1
                    outer += 1
                    if outer < self.n and line in self.at(outer, line):
                        self.at(outer, line)[line] = True
                        break
        return [64 * (f + w) for f, w in zip(self.fetched, self.written, strict=True)]


@st.composite
def hierarchies(draw):
    caches, sets = [], 1
    for level, name in enumerate(["L1", "L2", "L3"][: draw(st.integers(1, 3))]):
        sets, ways = draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 3, 8]))
        policy = draw(st.sampled_from(["", "inclusive", "victim"])) if level else ""
        caches.append(Cache(name, sets * ways * 64, ways, policy=policy))
    return caches


@QUIET
@given(
    hierarchies(), st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=300)
)
def test_a_hierarchy_moves_what_dictionaries_move(caches, lines):
    check_against_dictionaries(caches, lines)


def check_against_dictionaries(caches, lines):
    simple = Simple(caches)
    for line, store in lines:
        simple.access(line, store)
    found = fed(Hierarchy(caches), [(64 * line + 4, 4, store) for line, store in lines])
    expected = simple.moved()
    assert [found.moved_bytes() for _ in range(2)] == [expected] * 2  # asking changes nothing


@pytest.mark.parametrize("policy", ["", "inclusive", "victim"])
@pytest.mark.parametrize("ways", [(1, 1), (3, 12), (12, 20), (20, 33)])
def test_sets_of_any_number_of_ways(ways, policy):
    """Full sets, which are vectors, parts of vectors and many vectors."""
    near, far = ways
    caches = [Cache("L1", 2 * near * 64, near), Cache("L2", 3 * far * 64, far, policy=policy)]
    rng = np.random.default_rng(0)
    lines = [int(x) for x in rng.integers(0, 5 * far, 4000)]
    stores = [bool(x) for x in rng.random(4000) < 0.1]
    check_against_dictionaries(caches, list(zip(lines, stores, strict=True)))


def test_compulsory_misses_are_exact():
    caches = [Cache("L1", 32 << 10, 8), Cache("L2", 1 << 20, 16)]
    accesses = [(a, 4, False) for a in range(0, 300_000, 4)] * 2
    assert fed(Hierarchy(caches), accesses).moved_bytes()[1] == -(-300_000 // 64) * 64


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        (lambda: Cache("L1", 1000, 8), "whole number of sets"),
        (lambda: Cache("L1", 1024, 8, policy="odd"), "'odd'"),
        (lambda: Hierarchy([Cache("L1", 1024, 8), Cache("L2", 4096, 8, line=128)]), "one size"),
        (lambda: of_bytes(63), "smaller than a line"),
    ],
)
def test_mistakes_are_named(wrong, word):
    with pytest.raises(ValueError, match=word) as caught:
        wrong()
    assert "\n" not in str(caught.value)


def test_storage_nearer_than_a_boundary():
    caches = [
        Cache("L1", 1024, 8),
        Cache("L2", 4096, 8),
        Cache("L3", 65536, 16, policy="inclusive"),
    ]
    near = dict(boundaries(500, caches))
    assert near == {"L1": 500, "L2": 1524, "L3": 5620, "DRAM": 66036}


def test_caches_of_this_machine_and_of_the_catalogue():
    assert [c.name for c in of_this_machine()][:2] == ["L1", "L2"]
    l1, l2, l3 = of_catalogue("gh200")
    assert (l1.bytes, l2.bytes) == (65536, 1 << 20)
    assert 0 <= 117_000_000 - l3.bytes < l3.ways * l3.line
    assert of_catalogue("zen-3")[2].policy == "victim"
    with pytest.raises(ValueError, match="--fast-memory"):
        of_catalogue("h200")
