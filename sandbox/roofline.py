"""How fast can C = A B be: work, traffic and the ceilings they give.

Shapes: A is m x k, B is k x n, C is m x n; a batch is that many independent products.
Units: work in FLOP, traffic and capacity in bytes, rates in FLOP/s and bytes/s, intensity in
FLOP/byte, time in seconds.

Traffic at one boundary of the memory hierarchy lies between a lower bound that holds for every
schedule of the 2mnk multiply-adds (`pebble_bytes`) and the best of three schedules that can be
written down (`best_schedule`). Strassen-like algorithms are outside the model. Both start cold,
with nothing in fast memory, and end with C in slow memory; data that stays in a cache from one
run to the next moves less. `fast_bytes` is ALL storage on the near side of the boundary: for DRAM
against a GPU that is L2, every shared memory and every register file.

Sources: Williams, Waterman and Patterson, CACM 2009 (roofline); Hong and Kung, STOC 1981
(pebble game); Smith et al., arXiv:1702.02017 (its constant); Kwasniewski et al. (COSMA), SC 2019
(schedules); Hockney's half-performance length (fixed cost).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import repeat
from math import cbrt, ceil, isqrt, sqrt
from typing import Literal

Operand = Literal["A", "B", "C"]


@dataclass(frozen=True)
class Gemm:
    """The sizes the model sees: C (m x n) = A (m x k) B (k x n), `batch` times.

    `a_bytes`, `b_bytes` and `out_bytes` are bytes an element in slow memory; `acc_bytes` is the
    width of a partial sum, in fast memory and wherever it is spilled to before it is complete.
    A matrix shared by the whole batch makes one larger product, not a batch.

    Raises ValueError where a size is below 1.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    a_bytes: int = 4
    b_bytes: int = 4
    out_bytes: int = 4
    acc_bytes: int = 4

    def __post_init__(self) -> None:
        for field in fields(self):
            if (size := getattr(self, field.name)) < 1:
                raise ValueError(f"{field.name} must be at least 1, not {size}")


@dataclass(frozen=True)
class Schedule:
    """Blocks of `rows` x `cols` of one matrix stay in fast memory while the others stream past."""

    stationary: Operand
    rows: int
    cols: int
    moved_bytes: int


@dataclass(frozen=True)
class Ceiling:
    """The most FLOP/s a roofline allows, and the roof that sets it."""

    flops: float
    bound_by: Literal["compute", "memory"]


@dataclass(frozen=True)
class Level:
    """A boundary of the hierarchy, named for the level on its far side.

    Each of `memories` private near sides (SMs, cores) holds `fast_bytes`: all that is nearer than
    the boundary. `bandwidth` is bytes/s through it, all memories together; None if unknown;
    `spread` is its doubt as a fraction of it, `source` where it comes from.
    """

    name: str
    fast_bytes: int
    memories: int = 1
    bandwidth: float | None = None
    spread: float = 0.0
    source: str = "unknown"


@dataclass(frozen=True)
class LevelBound:
    """What one `Level` allows: least bytes, most FLOP/byte, and FLOP/s (None if unknown).

    `held_bytes` may be near already when the run starts. Where nothing else has to move there is
    no `intensity`, and the level is no limit.
    """

    name: str
    bytes: float
    intensity: float | None
    ceiling_flops: float | None
    bandwidth: float | None
    held_bytes: int


@dataclass(frozen=True)
class Parts:
    """Where the seconds of a call go; the parts add up to its time.

    `t0_s`, the fixed cost; `bound_s`, the least that work and traffic take; `traffic_s`, what the
    bytes that really move add to it (None where they are unknown); `rest_s`, all else, negative
    where the others make more than the time.
    """

    t0_s: float
    bound_s: float
    traffic_s: float | None
    rest_s: float


def work(gemm: Gemm) -> int:
    """FLOP of the product: 2mnk a product, a multiply-add counted as two."""
    return 2 * gemm.m * gemm.n * gemm.k * gemm.batch


def compulsory_bytes(gemm: Gemm) -> int:
    """Bytes that any schedule moves: A and B read once, C written once (fp32: 12 N^2)."""
    inputs = gemm.a_bytes * gemm.m * gemm.k + gemm.b_bytes * gemm.k * gemm.n
    return gemm.batch * (inputs + gemm.out_bytes * gemm.m * gemm.n)


def intensity_limit(gemm: Gemm, fast_bytes: int) -> float:
    """FLOP/byte in the limit of large products: sqrt(M / (s_a s_b s_acc)), in fp32 sqrt(M) / 8.

    With M bytes held and 2M read, an interval reaches a elements of A, b of B and c sums with
    s_a a + s_b b + s_acc c <= 3M, so it does at most sqrt(abc) <= sqrt(M^3 / (s_a s_b s_acc))
    multiply-adds (Loomis-Whitney; Smith et al. for equal widths).

    Raises ValueError where fast memory cannot hold one element of each matrix.
    """
    _require_three_words(gemm, fast_bytes)
    return sqrt(fast_bytes / (gemm.a_bytes * gemm.b_bytes * gemm.acc_bytes))


def pebble_bytes(gemm: Gemm, fast_bytes: int, memories: int = 1) -> float:
    """Bytes that every schedule moves, with `memories` private memories of `fast_bytes` M each.

    max(compulsory, 2mnk sqrt(s_a s_b s_acc) / sqrt(M) - 2PM), summed over the P memories: the
    bound of Smith et al. for C += A B, less the reads of C that C = A B does not need, plus its
    writes. These cancel, but where the output is narrower than a partial sum: there the
    difference, (s_acc - s_out) mn, goes too. Intervals may span the products of a batch, so -2PM
    counts once. It holds for all shapes, and for partial sums that are combined between memories.

    Raises ValueError where fast memory cannot hold one element of each matrix, or memories < 1.
    """
    if memories < 1:
        raise ValueError(f"memories must be at least 1, not {memories}")
    narrowing = max(0, gemm.acc_bytes - gemm.out_bytes) * gemm.m * gemm.n * gemm.batch
    leading = work(gemm) / intensity_limit(gemm, fast_bytes)
    return max(compulsory_bytes(gemm), leading - 2 * memories * fast_bytes - narrowing)


def article_pebble_bytes(gemm: Gemm, fast_bytes: int) -> float:
    """The bound as often quoted, fp32 max(12 N^2, 16 N^3 / sqrt(M)): asymptotic, not safe.

    It is `pebble_bytes` without its last terms, so a finite product may move less.

    Raises ValueError where fast memory cannot hold one element of each matrix.
    """
    return max(compulsory_bytes(gemm), work(gemm) / intensity_limit(gemm, fast_bytes))


def schedule_bytes(gemm: Gemm, stationary: Operand, rows: int, cols: int) -> int:
    """Bytes moved when `rows` x `cols` blocks of one matrix are stationary.

    A is read once for each block of n, B once for each block of m, and C visited once for each
    block of k; all visits but the first read a partial sum, all but the last write one. The axis
    along which the matrices stream is one block. Nothing is kept from one block to the next.

    Raises ValueError where a block is empty.
    """
    if rows < 1 or cols < 1:
        raise ValueError(f"a block must be at least 1 x 1, not {rows} x {cols}")
    m, n, k = gemm.m, gemm.n, gemm.k
    block_m, block_n, block_k = {
        "A": (rows, n, cols),
        "B": (m, cols, rows),
        "C": (rows, cols, k),
    }[stationary]
    a_moved = gemm.a_bytes * m * k * ceil(n / block_n)
    b_moved = gemm.b_bytes * k * n * ceil(m / block_m)
    c_moved = (gemm.out_bytes + 2 * gemm.acc_bytes * (ceil(k / block_k) - 1)) * m * n
    return gemm.batch * (a_moved + b_moved + c_moved)


def best_schedule(gemm: Gemm, fast_bytes: int) -> Schedule:
    """The one of the A-, B- and C-stationary schedules, in whole blocks, that moves least.

    A block of r x s fits with a column of r elements of one streaming matrix and one element of
    the other, or with a row of s and one: rs + min(r, s) + 1 words, at each matrix's own width
    (COSMA, section 5.2.7, for C). Products of a batch run one after another.

    Raises ValueError where fast memory cannot hold one element of each matrix.
    """
    _require_three_words(gemm, fast_bytes)
    orders: tuple[Operand, ...] = ("C", "A", "B")
    schedules = (s for stationary in orders for s in _schedules(gemm, stationary, fast_bytes))
    return min(schedules, key=lambda schedule: schedule.moved_bytes)


def _schedules(gemm: Gemm, stationary: Operand, fast_bytes: int) -> Iterator[Schedule]:
    """For each useful number of rows, the schedule with the widest block that fits.

    `column` and `row` are the bytes an element of the two matrices that stream: a column of the
    first and a row of the second lie along the block's sides.
    """
    height, width, block, column, row = {
        "A": (gemm.m, gemm.k, gemm.a_bytes, gemm.acc_bytes, gemm.b_bytes),
        "B": (gemm.k, gemm.n, gemm.b_bytes, gemm.a_bytes, gemm.acc_bytes),
        "C": (gemm.m, gemm.n, gemm.acc_bytes, gemm.a_bytes, gemm.b_bytes),
    }[stationary]
    for rows in _block_sizes(height):
        with_column = (fast_bytes - rows * column - row) // (rows * block)
        with_row = (fast_bytes - column) // (rows * block + row)
        if (widest := max(with_column, with_row)) < 1:
            return
        cols = ceil(width / ceil(width / widest))
        moved_bytes = schedule_bytes(gemm, stationary, rows, cols)
        yield Schedule(stationary, rows, cols, moved_bytes)


def _block_sizes(length: int) -> list[int]:
    """The least block size for every possible number of blocks, and few others, ascending."""
    root = isqrt(length)
    large = (ceil(length / blocks) for blocks in range(1, root + 2))
    return sorted({*range(1, root + 1), *large})


def intensity(gemm: Gemm, moved_bytes: float) -> float:
    """Arithmetic intensity W / Q in FLOP/byte (fp32, compulsory traffic: N / 6).

    Raises ValueError where moved_bytes is not positive.
    """
    _require_positive(moved_bytes=moved_bytes)
    return work(gemm) / moved_bytes


def ridge(peak_flops: float, bandwidth: float) -> float:
    """Ridge point P_peak / B in FLOP/byte: below it memory binds, above it compute.

    Raises ValueError where an argument is not positive.
    """
    _require_positive(peak_flops=peak_flops, bandwidth=bandwidth)
    return peak_flops / bandwidth


def n_star(ridge_intensity: float, itemsize: int = 4) -> float:
    """Square size N at which compulsory traffic reaches the ridge: 3 s I* / 2 (fp32: 6 I*)."""
    return 1.5 * itemsize * ridge_intensity


def ceiling(peak_flops: float, bandwidth: float, flop_per_byte: float) -> Ceiling:
    """The roofline min(P_peak, I B) (Williams et al.); at the ridge itself compute binds.

    Raises ValueError where a rate is not positive.
    """
    if flop_per_byte < ridge(peak_flops, bandwidth):
        return Ceiling(flop_per_byte * bandwidth, "memory")
    return Ceiling(peak_flops, "compute")


def level_bounds(
    gemm: Gemm, levels: Iterable[Level], peak_flops: float, held_bytes: Iterable[int] = repeat(0)
) -> list[LevelBound]:
    """The pebble bound and its ceiling at each boundary.

    Each holds by itself: they do not add up, and one schedule need not attain them all. In a warm
    run, one of many on the same matrices, `held_bytes` near each boundary outlast a call: each
    saves a read at most, or a write where C is written over before it leaves.

    Raises ValueError as `pebble_bytes` and `ceiling` do.
    """
    bounds = []
    for level, held in zip(levels, held_bytes, strict=False):
        least = max(0, pebble_bytes(gemm, level.fast_bytes, level.memories) - held)
        most = intensity(gemm, least) if least else None
        rate, roof = level.bandwidth, None
        if most is None:
            roof = peak_flops
        elif rate is not None:
            roof = ceiling(peak_flops, rate, most).flops
        bounds.append(LevelBound(level.name, least, most, roof, rate, held))
    return bounds


def binding_level(bounds: Iterable[LevelBound], peak_flops: float) -> LevelBound | None:
    """The level with the lowest ceiling below the peak; None where compute binds."""

    def roof(bound: LevelBound) -> float:
        return peak_flops if bound.ceiling_flops is None else bound.ceiling_flops

    lowest = min(bounds, key=roof, default=None)
    return lowest if lowest and roof(lowest) < peak_flops else None


def time_s(
    gemm: Gemm, t0_s: float, peak_flops: float, moved_bytes: float, bandwidth: float
) -> float:
    """Time with a fixed cost: T0 + max(W / P_peak, Q / B), in seconds.

    Raises ValueError where a rate is not positive.
    """
    _require_positive(peak_flops=peak_flops, bandwidth=bandwidth)
    return t0_s + max(work(gemm) / peak_flops, moved_bytes / bandwidth)


def parts(
    gemm: Gemm,
    time_s: float,
    t0_s: float,
    ceiling_flops: float,
    moved: Iterable[tuple[float, float]] | None = None,
) -> Parts:
    """Where a measured time goes: T0; max(W / P, Q_min / B); what the bytes moved add; the rest.

    `ceiling_flops` is the roofline over all levels, so W over it is that maximum; `moved` holds
    for each level the bytes moved and the bandwidth in bytes/s. T0 has to be measured by itself.
    """
    bound_s = work(gemm) / ceiling_flops
    traffic_s = None
    if moved is not None:
        traffic_s = max([0.0, *(q / rate - bound_s for q, rate in moved)])
    return Parts(t0_s, bound_s, traffic_s, time_s - t0_s - bound_s - (traffic_s or 0.0))


def n_for_efficiency(eta: float, t0_s: float, peak_flops: float) -> float:
    """Square size N at which a compute-bound product reaches `eta` of the peak in spite of T0.

    (eta / (1 - eta) T0 P / 2)^(1/3): (2 T0 P)^(1/3) for 80 %; at 50 % Hockney's half-performance.

    Raises ValueError where eta is outside 0 <= eta < 1.
    """
    if not 0 <= eta < 1:
        raise ValueError(f"efficiency must be at least 0 and below 1, not {eta}")
    return cbrt(eta / (1 - eta) * t0_s * peak_flops / 2)


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, not {value}")


def _require_three_words(gemm: Gemm, fast_bytes: int) -> None:
    least = gemm.a_bytes + gemm.b_bytes + gemm.acc_bytes
    if fast_bytes < least:
        raise ValueError(
            f"fast memory of {fast_bytes} bytes is below {least}: one element of A, B and C"
        )


if __name__ == "__main__":  # python -m sandbox.roofline; the model itself imports nothing
    import sys

    from sandbox.__main__ import main

    sys.exit(main(["roofline", *sys.argv[1:]]))
