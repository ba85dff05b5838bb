"""The model against the article's figures, and against schedules that are really played."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sandbox import roofline
from sandbox.roofline import Ceiling, Gemm, Level, Operand

CPU, CUDA, TENSOR = (7.1e12, 512e9), (67e12, 4.0e12), (494e12, 4.0e12)
ARTICLE = Gemm(512, 512, 512)


def square(n: int) -> Gemm:
    return Gemm(n, n, n)


# The article's own figures.


@pytest.mark.parametrize(
    ("machine", "ridge", "n_star", "tflops", "bound_by"),
    [
        (CPU, 13.9, 83, 7.1, "compute"),
        (CUDA, 16.75, 101, 67, "compute"),
        (TENSOR, 123.5, 741, 341, "memory"),
    ],
)
def test_article_ridges_and_ceilings(
    machine: tuple[float, float], ridge: float, n_star: float, tflops: float, bound_by: str
) -> None:
    point = roofline.ridge(*machine)
    assert point == pytest.approx(ridge, abs=0.05)
    assert roofline.n_star(point) == pytest.approx(n_star, abs=0.5)
    most = roofline.intensity(ARTICLE, roofline.compulsory_bytes(ARTICLE))
    assert most == pytest.approx(85.3, abs=0.05)
    top = roofline.ceiling(*machine, most)
    assert top.flops / 1e12 == pytest.approx(tflops, abs=0.5)
    assert top.bound_by == bound_by


@pytest.mark.parametrize(("fast_bytes", "i_max"), [(50_000_000, 880), (117_000_000, 1350)])
def test_article_intensity_limit_of_its_caches(fast_bytes: int, i_max: int) -> None:
    assert roofline.intensity_limit(ARTICLE, fast_bytes) == pytest.approx(i_max, abs=5)
    for n, expected in ((512, 512 / 6), (10**6, fast_bytes**0.5 / 8)):
        least = roofline.article_pebble_bytes(square(n), fast_bytes)
        assert roofline.intensity(square(n), least) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ms", "gflops", "roof", "percent"),
    [
        (93.81, 2.86, 7.1e12, 0.040),
        (0.1576, 1704, 7.1e12, 24),
        (0.01723, 15576, 67e12, 23),
        (0.01304, 20584, 341e12, 6.0),
    ],
)
def test_article_measured_rows(ms: float, gflops: float, roof: float, percent: float) -> None:
    measured = roofline.work(ARTICLE) / (ms * 1e-3)
    assert measured / 1e9 == pytest.approx(gflops, rel=1e-3)
    assert 100 * measured / roof == pytest.approx(percent, rel=0.02)


@pytest.mark.parametrize(
    ("machine", "t0_us", "measured_us", "n80"),
    [(CPU, 120, 157.6, 1200), (CUDA, 13, 17.23, 1200), (TENSOR, 12, 13.04, 2300)],
)
def test_article_fixed_cost(
    machine: tuple[float, float], t0_us: float, measured_us: float, n80: int
) -> None:
    peak, bandwidth = machine
    moved = roofline.compulsory_bytes(ARTICLE)
    modelled = roofline.time_s(ARTICLE, t0_us * 1e-6, peak, moved, bandwidth)
    assert modelled * 1e6 == pytest.approx(measured_us, rel=0.02)
    assert round(roofline.n_for_efficiency(0.8, t0_us * 1e-6, peak), -2) == n80


# Figures worked out by hand.


def test_a_stationary_schedule_beats_the_c_stationary_floor() -> None:
    gemm, fast_bytes = Gemm(900, 900, 10), 4 * 110
    best = roofline.best_schedule(gemm, fast_bytes)
    assert best == roofline.Schedule("A", 9, 10, 4 * 1_719_000)
    assert roofline.pebble_bytes(gemm, fast_bytes) / 4 == pytest.approx(1_544_389, abs=0.5)


def test_narrow_inputs_with_wide_partial_sums() -> None:
    gemm = Gemm(2048, 2048, 2048, a_bytes=2, b_bytes=2, out_bytes=2)
    best = roofline.best_schedule(gemm, 256 * 1024)
    bound = roofline.pebble_bytes(gemm, 256 * 1024)
    assert best.stationary == "C"
    assert best.moved_bytes / bound == pytest.approx(1.205, abs=5e-4)


@pytest.mark.parametrize(
    ("fast_kib", "memories", "gigabytes", "flop_per_byte"),
    [(50 * 1024, 1, 0.201, 682.7), (512, 132, 1.38, 99.6), (256, 132, 2.08, 66.1)],
)
def test_levels_of_an_h100(
    fast_kib: int, memories: int, gigabytes: float, flop_per_byte: float
) -> None:
    level = Level("level", fast_kib * 1024, memories)
    (bound,) = roofline.level_bounds(square(4096), [level], peak_flops=67e12)
    assert bound.bytes / 1e9 == pytest.approx(gigabytes, abs=0.005)
    assert bound.intensity == pytest.approx(flop_per_byte, abs=0.1)
    assert bound.ceiling_flops is None


def test_a_batch_gives_up_two_memories_once() -> None:
    bound = roofline.pebble_bytes(Gemm(100, 100, 100, batch=7), 4 * 400)
    assert bound == pytest.approx(4 * (7 * 2 * 100**3 / 20 - 2 * 400))


@pytest.mark.parametrize(("n", "percent"), [(256, 18.75), (496, 6.5)])
def test_square_tile_over_the_leading_term(n: int, percent: float) -> None:
    moved = roofline.schedule_bytes(square(n), "C", 31, 31)
    leading = roofline.article_pebble_bytes(square(n), 4 * 1024)
    assert 100 * (moved / leading - 1) == pytest.approx(percent, abs=0.05)


def test_best_schedule_nears_the_bound() -> None:
    ratios = [
        roofline.best_schedule(square(n), 4 * words).moved_bytes
        / roofline.pebble_bytes(square(n), 4 * words)
        for n, words in [(31, 64), (124, 256), (496, 1024), (4096, 4096), (65536, 65536)]
    ]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[2] < 1.10
    assert ratios[-1] < 1.01


def test_everything_that_fits_moves_once() -> None:
    gemm = Gemm(30, 20, 50, batch=3)
    fast_bytes = 4 * (30 * 20 + 20 + 1)
    best = roofline.best_schedule(gemm, fast_bytes)
    assert best == roofline.Schedule("C", 30, 20, roofline.compulsory_bytes(gemm))
    assert roofline.pebble_bytes(gemm, fast_bytes) == best.moved_bytes


def test_million_sized_problem_is_searched_quickly() -> None:
    best = roofline.best_schedule(square(10**6), 50_000_000)
    assert best.moved_bytes < 1.01 * roofline.pebble_bytes(square(10**6), 50_000_000)


# Levels.


def test_binding_level_is_the_lowest_ceiling() -> None:
    peak = 67e12
    dram = Level("DRAM", 100 << 20, bandwidth=4.0e12)
    unknown = Level("smem", 256 << 10, memories=132)
    slow = Level("L2", 512 << 10, memories=132, bandwidth=0.5e12)
    bounds = roofline.level_bounds(square(4096), [dram, unknown, slow], peak)
    assert [bound.name for bound in bounds] == ["DRAM", "smem", "L2"]
    assert [bound.ceiling_flops for bound in bounds[:2]] == [peak, None]
    assert roofline.binding_level(bounds, peak) is bounds[2]
    assert roofline.binding_level(bounds[:2], peak) is None
    assert roofline.binding_level([], peak) is None


def test_ridge_itself_is_compute_bound() -> None:
    assert roofline.ceiling(100.0, 10.0, 10.0) == Ceiling(100.0, "compute")
    assert roofline.ceiling(100.0, 10.0, 9.0) == Ceiling(90.0, "memory")


def test_half_performance_size() -> None:
    n = roofline.n_for_efficiency(0.5, t0_s=1e-5, peak_flops=2e14)
    assert n == pytest.approx(1000)
    assert roofline.n_for_efficiency(0.0, t0_s=1e-5, peak_flops=2e14) == 0


def test_time_takes_the_slower_of_work_and_traffic() -> None:
    assert roofline.time_s(square(100), 1.0, 2e6, 10, 1e3) == pytest.approx(2.0)
    assert roofline.time_s(square(100), 1.0, 2e9, 5000, 1e3) == pytest.approx(6.0)


# Mistakes.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Gemm(0, 1, 1), "m must be at least 1, not 0"),
        (lambda: Gemm(1, 1, 1, acc_bytes=0), "acc_bytes must be at least 1, not 0"),
        (lambda: roofline.pebble_bytes(ARTICLE, 11), "fast memory of 11 bytes"),
        (lambda: roofline.best_schedule(ARTICLE, 11), "fast memory of 11 bytes"),
        (lambda: roofline.article_pebble_bytes(ARTICLE, 11), "fast memory of 11 bytes"),
        (lambda: roofline.pebble_bytes(ARTICLE, 64, memories=0), "memories must be at least 1"),
        (lambda: roofline.schedule_bytes(ARTICLE, "C", 0, 1), "at least 1 x 1, not 0 x 1"),
        (lambda: roofline.intensity(ARTICLE, 0), "moved_bytes must be positive, not 0"),
        (lambda: roofline.ridge(1.0, 0.0), "bandwidth must be positive, not 0.0"),
        (lambda: roofline.ceiling(float("nan"), 1.0, 1.0), "peak_flops must be positive, not nan"),
        (lambda: roofline.time_s(ARTICLE, 0.0, 1.0, 1.0, -1.0), "bandwidth must be positive"),
        (lambda: roofline.n_for_efficiency(1.0, 1e-5, 1e12), "below 1, not 1.0"),
    ],
)
def test_mistakes_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


# Schedules that are played, every byte counted.

MultiplyAdd = tuple[int, int, int, int]  # batch, i, j, l: C[i, j] += A[i, l] B[l, j]
Element = tuple[Operand, int, int, int]  # matrix, batch, row, column


def elements(step: MultiplyAdd) -> tuple[Element, Element, Element]:
    batch, i, j, inner = step
    return ("A", batch, i, inner), ("B", batch, inner, j), ("C", batch, i, j)


class FastMemory:
    """Fast memory of some bytes that counts what it moves and refuses what does not fit."""

    def __init__(self, gemm: Gemm, capacity: int) -> None:
        self.gemm = gemm
        self.width = {"A": gemm.a_bytes, "B": gemm.b_bytes, "C": gemm.acc_bytes}
        self.free = capacity
        self.held: set[Element] = set()
        self.spilled: set[Element] = set()
        self.moved = 0

    def fits(self, element: Element) -> bool:
        return self.width[element[0]] <= self.free

    def enter(self, element: Element) -> None:
        """Read an element; a new partial sum begins at zero, unread."""
        assert element not in self.held
        assert self.fits(element)
        self.held.add(element)
        self.free -= self.width[element[0]]
        if element[0] != "C" or element in self.spilled:
            self.moved += self.width[element[0]]

    def leave(self, element: Element, complete: bool) -> None:
        """Forget an input; write a sum, at the output's width where it is complete."""
        self.held.remove(element)
        self.free += self.width[element[0]]
        if element[0] == "C":
            self.moved += self.gemm.out_bytes if complete else self.gemm.acc_bytes
            self.spilled.add(element)


def cached(gemm: Gemm, steps: list[MultiplyAdd], capacity: int, policy: str) -> int:
    """Bytes moved by these multiply-adds, in this order, through a fully associative cache.

    Victims: "lru" the least recently used, "opt" the one used again furthest ahead (Belady),
    "clean" the same but inputs before sums, as a sum's return costs twice.
    """
    uses: dict[Element, list[int]] = defaultdict(list)
    for time, step in reversed(list(enumerate(steps))):
        for element in elements(step):
            uses[element].append(time)
    memory, last_use = FastMemory(gemm, capacity), dict[Element, int]()

    def worth(element: Element) -> tuple[bool, int]:
        age = last_use[element] if policy == "lru" else -uses[element][-1]
        return policy == "clean" and element[0] == "C", age

    for time, step in enumerate(steps):
        needed = elements(step)
        for element in needed:
            if element not in memory.held:
                while not memory.fits(element):
                    memory.leave(min(memory.held.difference(needed), key=worth), complete=False)
                memory.enter(element)
        for element in needed:
            uses[element].pop()
            last_use[element] = time
            if not uses[element]:
                memory.leave(element, complete=True)
    assert not memory.held
    return memory.moved


def played(gemm: Gemm, schedule: roofline.Schedule, capacity: int) -> int:
    """Bytes moved by a schedule of the model, played element by element."""
    axes: dict[Operand, tuple[str, str]] = {"A": ("m", "l"), "B": ("l", "n"), "C": ("m", "n")}
    length = {"m": gemm.m, "n": gemm.n, "l": gemm.k}
    x, y = axes[schedule.stationary]
    (z,) = set("mnl") - {x, y}
    operand = {frozenset(pair): name for name, pair in axes.items()}
    memory, done = FastMemory(gemm, capacity), defaultdict[Element, int](int)

    def element(batch: int, **at: int) -> Element:
        name = operand[frozenset(at)]
        row, column = axes[name]
        return name, batch, at[row], at[column]

    def leave(one: Element) -> None:
        memory.leave(one, complete=done[one] == gemm.k)

    def stream(batch: int, long: str, block: range, short: str, others: range) -> None:
        """Along z: a vector of the block's `long` side, and one element a step of `short`."""
        for at_z in range(length[z]):
            vector = [element(batch, **{long: at, z: at_z}) for at in block]
            for one in vector:
                memory.enter(one)
            for other in others:
                single = element(batch, **{short: other, z: at_z})
                memory.enter(single)
                for at in block:
                    place = {long: at, short: other, z: at_z}
                    needed = elements((batch, place["m"], place["n"], place["l"]))
                    assert memory.held.issuperset(needed)
                    done[needed[2]] += 1
                leave(single)
            for one in vector:
                leave(one)

    for batch in range(gemm.batch):
        for x0, y0 in product(
            range(0, length[x], schedule.rows), range(0, length[y], schedule.cols)
        ):
            rows = range(x0, min(x0 + schedule.rows, length[x]))
            cols = range(y0, min(y0 + schedule.cols, length[y]))
            block = [element(batch, **{x: i, y: j}) for i in rows for j in cols]
            for one in block:
                memory.enter(one)
            of_x, of_y = (memory.width[operand[frozenset((axis, z))]] for axis in (x, y))
            if len(rows) * of_x + of_y <= memory.free:
                stream(batch, x, rows, y, cols)
            else:
                stream(batch, y, cols, x, rows)
            for one in block:
                leave(one)
    assert sum(done.values()) == roofline.work(gemm) // 2
    return memory.moved


WIDTHS = [
    (4, 4, 4, 4),
    (8, 8, 8, 8),
    (2, 2, 2, 4),
    (2, 2, 4, 4),
    (1, 1, 2, 4),
    (1, 2, 4, 1),
    (4, 1, 1, 3),
]


@st.composite
def cases(draw: st.DrawFn, largest: int = 9) -> tuple[Gemm, int]:
    """A small product and a fast memory that holds three elements or more."""
    m, n, k = (draw(st.integers(1, largest)) for _ in range(3))
    gemm = Gemm(m, n, k, draw(st.integers(1, 2)), *draw(st.sampled_from(WIDTHS)))
    least = gemm.a_bytes + gemm.b_bytes + gemm.acc_bytes
    return gemm, draw(st.integers(least, 20 * least))


@st.composite
def loop_nests(draw: st.DrawFn, gemm: Gemm) -> list[MultiplyAdd]:
    """The multiply-adds in a random order of two nests of loops, with random blocks."""
    lengths = (gemm.batch, gemm.m, gemm.n, gemm.k)
    blocks = [draw(st.integers(1, length)) for length in lengths]
    outer, inner = (draw(st.permutations(range(4))) for _ in "oi")
    turns = draw(st.lists(st.sampled_from([1, -1]), min_size=4, max_size=4))

    def order(step: MultiplyAdd) -> list[int]:
        block = [step[axis] // blocks[axis] for axis in outer]
        odd = sum(block) % 2
        return block + [step[axis] * (turns[axis] if odd else 1) for axis in inner]

    batches, rows, cols, inners = map(range, lengths)
    return sorted(product(batches, rows, cols, inners), key=order)


POLICIES = st.sampled_from(["lru", "opt", "clean"])


@settings(max_examples=150, deadline=None)
@given(st.data(), cases(), POLICIES)
def test_no_loop_nest_moves_less_than_the_bound(
    data: st.DataObject, case: tuple[Gemm, int], policy: str
) -> None:
    gemm, fast_bytes = case
    moved = cached(gemm, data.draw(loop_nests(gemm)), fast_bytes, policy)
    assert moved >= roofline.pebble_bytes(gemm, fast_bytes)


@settings(max_examples=100, deadline=None)
@given(st.data(), cases(), POLICIES, st.integers(2, 4))
def test_no_parts_with_private_memories_move_less_than_the_bound(
    data: st.DataObject, case: tuple[Gemm, int], policy: str, memories: int
) -> None:
    """The steps are dealt out in bricks; sums that two parts share are added in slow memory."""
    gemm, fast_bytes = case
    bricks = [data.draw(st.integers(1, length)) for length in (gemm.batch, gemm.m, gemm.n, gemm.k)]
    salt = data.draw(st.integers(0, 99))
    parts: dict[int, list[MultiplyAdd]] = defaultdict(list)
    for step in data.draw(loop_nests(gemm)):
        brick = tuple(at // size for at, size in zip(step, bricks, strict=True))
        parts[random.Random(repr((salt, brick))).randrange(memories)].append(step)
    moved = sum(cached(gemm, steps, fast_bytes, policy) for steps in parts.values())
    sums = sum(len({elements(step)[2] for step in steps}) for steps in parts.values())
    shared = sums - gemm.batch * gemm.m * gemm.n
    moved += shared * (gemm.acc_bytes - gemm.out_bytes)
    assert moved >= roofline.pebble_bytes(gemm, fast_bytes, memories)


@settings(max_examples=150, deadline=None)
@given(cases(largest=8))
def test_best_schedule_is_played_at_its_count_and_above_the_bound(case: tuple[Gemm, int]) -> None:
    gemm, fast_bytes = case
    best = roofline.best_schedule(gemm, fast_bytes)
    assert played(gemm, best, fast_bytes) == best.moved_bytes
    assert best.moved_bytes >= roofline.pebble_bytes(gemm, fast_bytes)


@settings(max_examples=300, deadline=None)
@given(cases(largest=6))
@example((Gemm(3, 2, 4, 1, 2, 2, 2, 4), 22))  # two blocks of two rows out of three
def test_best_schedule_is_the_best_of_all_blocks(case: tuple[Gemm, int]) -> None:
    gemm, fast_bytes = case
    least: float = inf
    operands: tuple[Operand, ...] = ("A", "B", "C")
    for operand, rows, cols in product(operands, range(1, 7), range(1, 7)):
        moved = roofline.schedule_bytes(gemm, operand, rows, cols)
        if moved < least:
            with suppress(AssertionError):
                schedule = roofline.Schedule(operand, rows, cols, moved)
                least = played(gemm, schedule, fast_bytes)
    assert roofline.best_schedule(gemm, fast_bytes).moved_bytes == least


@given(
    st.builds(Gemm, *[st.integers(1, 5000)] * 3, st.integers(1, 9)),
    st.integers(12, 10**6),
    st.integers(0, 10**6),
)
def test_more_fast_memory_never_moves_more(gemm: Gemm, fast_bytes: int, more: int) -> None:
    small, large = fast_bytes, fast_bytes + more
    assert roofline.pebble_bytes(gemm, large) <= roofline.pebble_bytes(gemm, small)
    assert roofline.pebble_bytes(gemm, small, 2) <= roofline.pebble_bytes(gemm, small)
    assert roofline.pebble_bytes(gemm, small) <= roofline.article_pebble_bytes(gemm, small)
    best = [roofline.best_schedule(gemm, size).moved_bytes for size in (large, small)]
    assert best == sorted(best)
    assert roofline.pebble_bytes(gemm, small) <= best[1]
