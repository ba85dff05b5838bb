"""The caches that one core's accesses go through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandbox.machine import catalogue, detect
from sandbox.result import Traffic

LINE_BYTES = 64
BELOW = "it moves less than any schedule can: a part of the work is done where nothing is recorded"
_WAYS = {"L1": 8, "L2": 8}  # as usual where the system does not say; 16 further out


@dataclass(frozen=True)
class Cache:
    """One level of data caches, in sets of `ways` lines of `line` bytes, LRU in each set.

    It allocates on a write and writes back. `policy`: "inclusive" holds all that is nearer, so what
    it drops is dropped there, too; "victim" holds what the level before it dropped; "" neither.

    Raises ValueError for a cache that does not consist of whole sets.
    """

    name: str
    bytes: int
    ways: int
    line: int = LINE_BYTES
    policy: str = ""

    def __post_init__(self) -> None:
        if self.policy not in ("", "inclusive", "victim"):
            raise ValueError(f"{self.name}: the policy is inclusive or victim, not {self.policy!r}")
        if min(self.bytes, self.ways, self.line) < 1 or self.bytes % (self.ways * self.line):
            raise ValueError(
                f"{self.name} of {self.bytes} bytes is no whole number of sets of {self.ways} "
                f"lines of {self.line} bytes"
            )

    @property
    def sets(self) -> int:
        """How many sets there are."""
        return self.bytes // (self.ways * self.line)


def of_this_machine() -> list[Cache]:
    """The data caches of one core, from the nearest on."""
    return [
        _whole(f"L{c.level}", c.one_bytes, c.ways, c.line_bytes, c.policy)
        for c in detect.hierarchy()
    ]


def of_catalogue(name: str) -> list[Cache]:
    """Those of one core of a machine's CPU; raises ValueError where the catalogue has none."""
    cpu = catalogue.sheet_of(name).cpu
    if cpu is None:
        raise ValueError(f"the caches of {name} are not known: give --fast-memory their size")
    numbered = enumerate(cpu.caches, 1)
    return [_whole(f"L{i}", c.bytes, None, None, c.policy) for i, c in numbered]


def _whole(name: str, size: int, ways: int | None, line: int | None, policy: str) -> Cache:
    """Whole sets of it, with what is usual where something is not known."""
    ways, line = ways or _WAYS.get(name, 16), line or LINE_BYTES
    known = policy if policy in ("inclusive", "victim") else ""
    return Cache(name, size // (ways * line) * ways * line, ways, line, known)


def of_bytes(fast_bytes: int) -> list[Cache]:
    """One cache of whole lines, 16-way where that divides them; raises ValueError below a line."""
    if fast_bytes < LINE_BYTES:
        raise ValueError(f"a cache of {fast_bytes} bytes is smaller than a line of {LINE_BYTES}")
    lines = fast_bytes // LINE_BYTES
    return [Cache("L1", lines * LINE_BYTES, 16 if lines % 16 == 0 else lines)]


def bounded(moved_bytes: dict[str, int], bound_bytes: dict[str, float]) -> Traffic:
    """The traffic at each boundary, or that it cannot be all of it."""
    if any(moved < bound_bytes[name] for name, moved in moved_bytes.items()):
        return Traffic({}, {}, BELOW)
    return Traffic(moved_bytes, bound_bytes)


def boundaries(near_bytes: int, caches: Sequence[Cache]) -> Iterator[tuple[str, int]]:
    """Each boundary by the name of its far side, and the bytes that all nearer storage holds.

    `near_bytes` is what compiled code holds itself. A cache that is not inclusive may hold what is
    in none of the nearer ones: they add up.
    """
    fast_bytes = near_bytes
    for cache in caches:
        yield cache.name, fast_bytes
        fast_bytes = cache.bytes + (near_bytes if cache.policy == "inclusive" else fast_bytes)
    yield "DRAM", fast_bytes
