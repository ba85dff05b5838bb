"""Every level's roof, warm and cold; where the time goes; and how both are shown."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sandbox.judgement import article_storage, bound
from sandbox.machine import Machine, Unit
from sandbox.problem import Problem
from sandbox.registry import Variant
from sandbox.report import fixed_cost
from sandbox.report.counters import counters
from sandbox.report.explain import bar, explain
from sandbox.report.levels import levels
from sandbox.result import Counters, Result, Source, Timing, Verdict
from sandbox.roofline import Gemm, Level, Parts, level_bounds, parts, pebble_bytes, work

KIB = 1024
UNIT = Unit(
    name="fp32, 2 threads",
    device="cpu",
    arithmetic="fp32",
    threads=2,
    peak_flops=180e9,
    levels=(
        Level("DRAM", 33 << 20, 1, 20e9, 0.05, "measured"),
        Level("L3", 545 * KIB, 2, 1e9, 0.04, "measured"),
        Level("L2", 33 * KIB, 2, 100e9),
        Level("L1", 512, 2),
    ),
    fixed_cost_s={"omp": 5e-6},
    article_bytes=32 << 20,
    source=Source("measured", "measured"),
    spread=0.01,
)
MACHINE = Machine("AMD EPYC (Zen 3)", 2, 2, (UNIT,), "measured")
VARIANT = Variant("mine", "cpu", Path("mine.py"), 1, "")
SIZES = st.integers(1, 3000)


def row(n: int, seconds: float, cold: bool = False, machine: Machine = MACHINE) -> Result:
    problem = Problem(n, n, n)
    roof = bound(machine, VARIANT, problem, 2, cold)
    timing = Timing(seconds, seconds, seconds, 9)
    cache = "cold" if cold else "warm"
    right = Verdict(True, 0.0)
    return Result("mine", "cpu", False, "fp32", problem, 2, cache, right, timing, bound=roof)


def shown(content: object, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO(), markup=False, highlight=False, emoji=False)
    console.print(content)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= width
    return text


# Levels.


@given(SIZES, SIZES, SIZES)
def test_a_warm_run_moves_less_by_what_is_held_at_most(m: int, n: int, k: int) -> None:
    gemm = Gemm(m, n, k)
    cold = level_bounds(gemm, UNIT.levels, UNIT.peak_flops)
    held = [level.memories * level.fast_bytes for level in UNIT.levels]
    warm = level_bounds(gemm, UNIT.levels, UNIT.peak_flops, held)
    for level, c, w, near in zip(UNIT.levels, cold, warm, held, strict=True):
        assert c.bytes == pebble_bytes(gemm, level.fast_bytes, level.memories)
        assert w.bytes == max(0, c.bytes - near)
        assert (w.intensity is None) == (w.bytes == 0)
        if w.ceiling_flops is not None and c.ceiling_flops is not None:
            assert c.ceiling_flops <= w.ceiling_flops <= UNIT.peak_flops


def test_what_stays_near_is_no_limit_even_where_the_bandwidth_is_unknown() -> None:
    unknown = Level("L3", 1 << 20)
    (found,) = level_bounds(Gemm(64, 64, 64), [unknown], 1e9, [1 << 20])
    assert (found.bytes, found.intensity, found.ceiling_flops) == (0, None, 1e9)
    (found,) = level_bounds(Gemm(64, 64, 64), [unknown], 1e9)
    assert found.ceiling_flops is None


def test_the_slowest_level_binds_and_lends_its_spread() -> None:
    roof = bound(MACHINE, VARIANT, Problem(512, 512, 512), 2, cold=False)
    assert roof
    least = 12 * 512**2 - 2 * 545 * KIB
    assert roof.bound_by == "L3"
    assert roof.ceiling_flops == pytest.approx(2 * 512**3 / least * 1e9)
    assert roof.spread == 0.04
    small = bound(MACHINE, VARIANT, Problem(200, 200, 200), 2, cold=False)  # stays in L2
    assert small
    assert (small.bound_by, small.ceiling_flops, small.spread) == ("compute", 180e9, 0.01)
    assert (small.t0_s, small.launch_s) == (5e-6, 5e-6)


def test_a_kernel_on_a_gpu_is_replayed_and_its_call_launched() -> None:
    cost = {"launch": 16e-6, "event": 31e-6, "graph": 0.6e-6}
    gpu = replace(fast(), device="gpu", threads=1, fixed_cost_s=cost)
    machine = replace(MACHINE, units=(gpu,))
    roof = bound(machine, replace(VARIANT, device="gpu"), Problem(64, 64, 64), 1, cold=False)
    assert roof
    assert (roof.t0_s, roof.launch_s) == (0.6e-6, 16e-6)
    time, call = (Timing(s, s, s, 9) for s in (4e-6, 18e-6))
    r = replace(row(64, 1e-6), device="gpu", timing=time, call=call, bound=roof)
    assert r.parts
    assert r.call_parts
    assert r.parts.rest_s == pytest.approx(4e-6 - 0.6e-6 - work(Gemm(64, 64, 64)) / 180e9)
    assert r.call_parts.t0_s == 16e-6
    assert "mine, the call" in shown(explain([r]))


def test_the_articles_storage_is_the_last_level_cache() -> None:
    (unit,) = article_storage(MACHINE).units
    assert unit.fast_bytes == 32 << 20
    assert unit.levels[1:] == UNIT.levels[1:]


def test_levels_in_json() -> None:
    data = row(512, 1e-3).to_json()
    json.dumps(data, allow_nan=False)
    assert [x["name"] for x in data["levels"]] == ["DRAM", "L3", "L2", "L1"]
    assert [x["binds"] for x in data["levels"]] == [False, True, False, False]
    assert data["levels"][0]["bytes"] == 0
    assert data["levels"][1]["ceiling_flops"] == data["bound"]["ceiling_flops"]
    assert "levels" not in data["bound"]


@pytest.mark.parametrize("width", range(40, 121, 8))
def test_levels_are_shown_once_for_rows_that_share_them(width: int) -> None:
    rows = [row(512, 1e-3), replace(row(512, 2e-3), variant="other")]
    text = shown(levels(rows), width)
    assert text.count("DRAM") == 1
    assert "mine, other" in text
    if width >= 64:
        assert text.count("binds") == 1
        line = next(x for x in text.splitlines() if "binds" in x)
        assert line.split()[0] == "L3"
        assert "unknown" in text


def test_compute_binds_where_no_level_does() -> None:
    text = shown(levels([row(512, 1e-3, machine=replace(MACHINE, units=(fast(),)))]))
    line = next(x for x in text.splitlines() if "binds" in x)
    assert line.split() == ["compute", "180", "binds"]


def test_bytes_that_counters_saw_set_the_roof_of_a_row() -> None:
    least = row(512, 1e-1, cold=True)
    counted = Counters(10 << 20, 10 << 20, 500 << 20)
    r = replace(least, counters=counted)
    assert r.moved == {"DRAM": 20 << 20, "L2": 500 << 20}
    line = shown(levels([r])).splitlines()[-1]
    assert line.split() == ["mine", "2", "21.0", "MB", "-", "524", "MB", "-", "51.2", "L2"]
    assert r.parts
    assert r.parts.traffic_s == pytest.approx((500 << 20) / 100e9 - r.parts.bound_s)
    assert [x["moved_bytes"] for x in r.to_json()["levels"]] == [20 << 20, None, 500 << 20, None]
    warm = replace(row(512, 1e-1), counters=counted)
    assert warm.moved == r.moved  # perf counts calls that follow one another
    held = UNIT.levels[2].memories * UNIT.levels[2].fast_bytes
    assert replace(warm, device="gpu").moved == {"DRAM": 0, "L2": (500 << 20) - held}


def test_what_a_cache_still_holds_of_the_product_counts_as_written() -> None:
    r = replace(row(512, 1e-1), counters=Counters(2 << 20, 0))
    assert shown(counters([r])).split()[-1] == "1.0"  # three matrices of 1 MiB


def test_only_a_gpus_l2_outlasts_a_call() -> None:
    machine = replace(MACHINE, units=(replace(UNIT, device="gpu", threads=1),))
    roof = bound(machine, replace(VARIANT, device="gpu"), Problem(8, 8, 8), 1, cold=False)
    assert roof
    assert [x.held_bytes for x in roof.levels] == [UNIT.article_bytes, 0, 0, 0]


def fast() -> Unit:
    return replace(UNIT, levels=(UNIT.levels[0],))


# Where the time goes.


@given(
    st.floats(1e-7, 10),
    st.floats(0, 1),
    st.floats(1e6, 1e15),
    st.none() | st.lists(st.tuples(st.floats(0, 1e12), st.floats(1e6, 1e13))),
)
def test_parts_add_up_to_the_time(
    time_s: float, t0_s: float, roof: float, moved: list[tuple[float, float]] | None
) -> None:
    gemm = Gemm(100, 200, 300)
    found = parts(gemm, time_s, t0_s, roof, moved)
    total = found.t0_s + found.bound_s + (found.traffic_s or 0.0) + found.rest_s
    most = max(time_s, found.t0_s, found.bound_s, found.traffic_s or 0.0)
    assert total == pytest.approx(time_s, abs=1e-9 * most)
    assert found.bound_s == work(gemm) / roof
    assert (found.traffic_s is None) == (moved is None)
    if moved:
        slowest = max(q / rate for q, rate in moved)
        assert found.bound_s + (found.traffic_s or 0.0) == pytest.approx(
            max(found.bound_s, slowest)
        )


SECONDS = st.floats(0, 1)


@given(SECONDS, st.floats(1e-3, 1), st.none() | SECONDS, st.floats(-1, 1, exclude_min=True))
def test_bars_show_each_part_to_scale(
    t0_s: float, bound_s: float, traffic_s: float | None, rest: float
) -> None:
    known = t0_s + bound_s + (traffic_s or 0.0)
    rest_s = known * rest
    drawn = bar(Parts(t0_s, bound_s, traffic_s, rest_s))
    assert len(drawn) == 24
    assert drawn == "".join(sorted(drawn, key="=#+.<".index))
    whole = known + max(0.0, rest_s)
    if rest_s >= 0:
        for sign, part in zip("=#+.", (t0_s, bound_s, traffic_s or 0.0, rest_s), strict=True):
            assert abs(drawn.count(sign) - 24 * part / whole) <= 1
        assert "<" not in drawn
    else:
        assert abs(drawn.count("<") - 24 * -rest_s / whole) <= 0.5


@pytest.mark.parametrize("width", range(48, 121, 8))
def test_explanation_at_all_widths(width: int) -> None:
    rows = [row(512, 1e-2), row(512, 1e-4), replace(row(512, 1), timing=None)]
    text = shown(explain(rows), width)
    assert len([x for x in text.splitlines() if "mine" in x]) == 2
    assert "10.0 ms" in text
    if width >= 80:
        line = next(x for x in text.splitlines() if "100 us" in x)
        assert "-" in line.split()[6]
        assert line.endswith("<")


def test_without_a_fixed_cost_there_is_no_explanation() -> None:
    machine = replace(MACHINE, units=(replace(UNIT, fixed_cost_s={}),))
    r = row(512, 1e-2, machine=machine)
    assert r.parts is None
    assert r.to_json()["parts"] is None
    assert "no fixed cost is known" in shown(explain([r]))


# Sweeps.


def test_rows_at_enough_sizes_are_fitted() -> None:
    def at(n: int) -> Result:
        return row(n, 5e-6 + work(Gemm(n, n, n)) / 90e9, machine=replace(MACHINE, units=(fast(),)))

    found = fixed_cost.fits([at(n) for n in (16, 32, 64, 128, 256, 512)])
    cost = found["mine", 2]
    assert cost.t0_s.value == pytest.approx(5e-6, rel=1e-3)
    assert cost.peak_flops
    assert cost.peak_flops.value == pytest.approx(90e9, rel=1e-3)
    text = shown(fixed_cost.fixed_costs(found))
    for words in (" 5.00 ", " 90.0 ", f"{cost.n_for(0.8):.0f}"):
        assert words in text
    assert fixed_cost.fits([at(n) for n in (16, 32, 64, 128)]) == {}
    shapes = [Problem(2**i, 2 ** (10 - i), 64) for i in range(11)]
    assert fixed_cost.fits([replace(at(64), problem=shape) for shape in shapes]) == {}
    assert asdict(cost)["bandwidth"] is None
