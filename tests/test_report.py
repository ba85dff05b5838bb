"""What is shown: figures, tables at every width, and words for every row that has no time."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sandbox.compiled import Code
from sandbox.fixed_cost import Estimate, FixedCost
from sandbox.judgement import ranked
from sandbox.machine import Fact, catalogue
from sandbox.problem import Problem
from sandbox.registry import Variant
from sandbox.report import code
from sandbox.report.files import as_csv, as_json
from sandbox.report.fixed_cost import fixed_costs
from sandbox.report.machines import sources
from sandbox.report.table import Fitted, percent, report, scaled, significant
from sandbox.result import Bound, Result, Source, Timing, Verdict

GH200 = catalogue.named("gh200")
PROBLEM = Problem(512, 512, 512)
RIGHT = Verdict(True, 0.0213)
BOUND = Bound(
    1e11, "compute", 85.3, 3145728.0, 3145728, Source("measured", "measured (read)"), 0.01
)
SILENT = Result("naive", "cpu", False, "fp32", PROBLEM, 1, "warm", RIGHT, bound=BOUND)


def row(name, seconds, threads=1, spread=0.01, **facts):
    low, high = seconds * (1 - spread), seconds * (1 + spread)
    timing = Timing(seconds, low, high, 9)
    return replace(SILENT, variant=name, timing=timing, threads=threads, **facts)


ROWS = ranked(
    [
        row("naive", 298e-3),
        row("reordered", 6.39e-3),
        row("tiled", 3.62e-3),
        row("impossible", 1e-3),
        replace(SILENT, variant="mine", verdict=Verdict(False, None, "512 elements NaN, last row")),
        replace(
            SILENT,
            variant="crash",
            verdict=Verdict(False, None, "ValueError: odd"),
            traceback="Traceback",
        ),
        replace(SILENT, variant="absent", verdict=None, skipped="NumPy has no bfloat16"),
        row("numpy", 2.9e-3, reference=True),
        row("numpy", 1.6e-3, threads=2, reference=True),
    ]
)
VARIANTS = [
    Variant("naive", "cpu", None, 1, ""),
    Variant("reordered", "cpu", None, 1, "", after="naive"),
    Variant("tiled", "cpu", None, 1, "", after="reordered"),
]


def printed(content, width):
    console = Console(width=width, file=io.StringIO(), markup=False, highlight=False, emoji=False)
    console.print(content)
    return console.file.getvalue()


def shown(rows, width=80, machine=GH200, variants=VARIANTS):
    return printed(report(rows, machine, variants), width)


def line(text, name):
    return next(x for x in text.splitlines() if x.split()[:1] == [name])


# Figures.


@given(st.floats(1e-12, 1e15), st.integers(1, 6))
def test_significant_digits_are_right_and_whole(x, digits):
    text = significant(x, digits)
    assert re.fullmatch(r"\d+(\.\d+)?", text)
    assert float(text) == pytest.approx(x, rel=0.51 * 10 ** (1 - digits))
    assert len(text.replace(".", "").lstrip("0")) >= digits


@given(st.floats(1e-12, 1e15))
def test_scaled_is_right_and_short(x):
    number, unit = scaled(x, "B").split(" ")
    factor = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
    assert float(number) * factor[unit.removesuffix("B")] == pytest.approx(x, rel=0.006)
    if 1e-9 <= x < 9.99e14:
        assert 1 <= float(number) < 1000
        assert len(number.replace(".", "")) == 3


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0, "0 s"), (6.39e-3, "6.39 ms"), (11.5, "11.5 s"), (298e-3, "298 ms"), (1, "1.00 s"),
        (0.9994, "999 ms"), (0.99951, "1.00 s"), (9.996, "10.0 s"), (99.96, "100 s"),
        (999.6, "1.00 ks"), (5e-10, "0.500 ns"), (2.5e15, "2500 Ts"),
    ],
)  # fmt: skip
def test_scaled(x, text):
    assert scaled(x, "s") == text


@pytest.mark.parametrize(
    ("x", "digits", "text"),
    [
        (1234.4, 3, "1234"), (0, 3, "0.00"), (0.00414, 2, "0.0041"), (9.996, 3, "10.0"),
        (36, 2, "36"), (0.4, 2, "0.40"), (105.31, 4, "105.3"), (-2.5, 2, "-2.5"),
    ],
)  # fmt: skip
def test_significant(x, digits, text):
    assert significant(x, digits) == text


@given(st.floats(0, 20))
def test_percent(x):
    text = percent(x)
    if text.startswith("<"):
        assert 0 < x < 0.0005
    else:
        assert float(text.removesuffix("%")) == pytest.approx(
            100 * x, abs=0.501 if x > 0.09 else 0.051
        )
    assert len(text) <= 5


# The table.


@pytest.mark.parametrize("width", [*range(40, 100, 3), 80, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_cut(width):
    text = shown(ROWS, width)
    assert max(len(x) for x in text.splitlines()) <= width
    assert "…" not in text
    assert all(x == x.rstrip() for x in text.splitlines())
    assert text.isascii()
    for r in ROWS:
        if r.timing:
            assert scaled(r.timing.median_s, "s") in text
    words = text.split()
    for name in ("naive", "reordered", "tiled", "numpy"):
        assert name in words
    assert percent(ROWS[2].of_roof) in words


CODE = Code("specialised", "_kernel", "sm_90", "Triton", 168, 0, 160 << 10, {"HGMMA": 8, "STSM": 8})
CODE = replace(CODE, warps=12, grid=(65536, 1, 1), occupancy=0.25, limited_by="shared memory")
COST = FixedCost(Estimate(5e-6, 4.5e-6, 6e-6), Estimate(1e11, 9e10, 1.1e11), None)


@pytest.mark.parametrize("width", [60, 72, 80, 120])
@pytest.mark.parametrize(
    ("table", "words"),
    [
        (sources([Fact("microarchitecture", "zen3", "a source of many words", "unverified")] * 2),
         "microarchitecture zen3 source unverified"),
        (code.report(PROBLEM, [(Variant("specialised", "gpu", None, 1, ""), [CODE])]),
         "specialised 168 160 KiB 12 25% shared memory HGMMA,"),
        (fixed_costs({("vectorised", 1): COST, ("specialised, the call", 1): COST}),
         "GFLOP/s vectorised specialised, 5.00 4.50 110 100 131"),
        (Fitted(["step", "x"], [("", ["two words", "y" * 50])]), "two words " + "y" * 50),
    ],
)  # fmt: skip
def test_cells_fold_between_words(table, words, width):
    text = printed(table, width)
    assert max(map(len, text.splitlines())) <= width
    assert set(words.split()) <= set(text.split())


def test_where_there_is_no_room_for_words_they_are_broken():
    text = printed(sources([Fact("microarchitecture", "zen3", "archspec", "unverified")]), 20)
    assert max(map(len, text.splitlines())) <= 20
    assert "microarchitecture" not in text


def test_everything_is_there_at_80_columns():
    text = shown(ROWS)
    head = line(text, "step")
    assert " ".join(head.split()) == "step thr time +- GFLOP/s of roof x numpy err"
    tiled = "tiled 1 3.62 ms 1.0% 74.2 74% ########## 0.80 .02"
    assert " ".join(line(text, "tiled").split()) == tiled
    assert "512 x 512 x 512  float32  nn  warm" in text
    assert "NVIDIA GH200, 72 of 72 cores" in text
    assert "3.15 MB from DRAM (compulsory)" in text


def test_a_row_without_time_says_why():
    text = " ".join(shown(ROWS).split())
    assert "mine 1 failed" in text
    assert "mine (1 thread) failed: 512 elements NaN, last row." in text
    assert "crash 1 failed" in text
    assert "crash (1 thread) failed: ValueError: odd." in text
    assert "absent 1 skipped" in text
    assert "absent is left out: NumPy has no bfloat16." in text
    assert all(x != "-" for x in line(shown(ROWS), "mine").split())


def test_the_same_note_is_made_once():
    refused = Verdict(True, 0.1, refused="no negative strides")
    rows = [row("mine", 1e-2, t, verdict=refused) for t in (1, 2)]
    assert shown(rows).count("mine does not take all shapes: no negative strides.") == 1


@pytest.mark.parametrize(
    ("bound", "binds", "said"),
    [
        (BOUND, "compute", "27%"),
        (replace(BOUND, t0_s=2.6e-3), "compute", "27%"),  # W/P is 2.68 ms
        (replace(BOUND, t0_s=2.7e-3), "fixed", "27% fixed"),
        (replace(BOUND, t0_s=1.1e-2), "compute", "27%"),  # the row is faster
        (replace(BOUND, bound_by="L3", t0_s=2.6e-3), "L3", "27% L3"),
        (replace(BOUND, bound_by="L3", t0_s=2.7e-3), "fixed", "27% fixed"),
    ],
)
@pytest.mark.parametrize("width", [60, 80])
def test_what_binds_is_in_the_row_unless_it_is_compute(bound, binds, said, width):
    mine = row("mine", 1e-2, bound=bound)
    assert mine.binds == mine.to_json()["binds"] == binds
    text = shown([mine], width)
    found = re.search(r"27%(?: (?!#)\S+)?(?= )", line(text, "mine"))
    assert found
    assert found[0] == said
    word = "compute-bound" if binds == "compute" else f"bound by {binds}"
    assert f"intensity 85.3: {word}" in text


def test_the_fixed_cost_stands_above_the_rows():
    text = shown([row("mine", 1e-2, threads=72)])
    assert line(text, "fixed").split()[:3] == ["fixed", "120", "us"]


def test_above_the_ceiling_is_flagged_and_not_ranked():
    text = shown(ROWS)
    impossible = ROWS[3]
    assert impossible.impossible
    assert impossible.ratio is None
    assert "impossible" in line(text, "impossible")[10:]
    assert "--remeasure" in text
    assert "tiled is" in text.splitlines()[-1]


def test_noise_is_said():
    assert "naive (1 thread) is noisy: 80.0 ms to 120 ms." in shown([row("naive", 0.1, spread=0.2)])


def test_spread_of_one_round_is_unknown():
    once = replace(SILENT, timing=Timing(1e-2, 1e-2, 1e-2, 1))
    assert "10.0 ms ?" in " ".join(shown([once]).split())


def test_names_and_reasons_are_literal():
    name, reason = "[x] [/x]", "[/red] [bold]:smile:"
    bad = replace(SILENT, variant=name, verdict=Verdict(False, None, reason))
    text = shown([bad])
    assert f"{name}    1  failed" in text
    assert f"{name} (1 thread) failed: {reason}." in text


@pytest.mark.parametrize(
    ("machine", "unit", "said"),
    [
        ("h200", "fp32", "for the CPU's rows: the machine named is a GPU alone. Leave --machine"),
        ("gh200", "fp64", "for fp64 on NVIDIA GH200."),
    ],
)
def test_no_ceiling(machine, unit, said):
    rows = [replace(row("naive", 1e-2), unit=unit, bound=None)]
    text = " ".join(shown(rows, machine=catalogue.named(machine)).split())
    assert f"No ceiling is known {said}" in text
    assert "roof." not in text


def test_what_has_no_ceiling_beside_what_has_one():
    rows = [row("naive", 1e-2), replace(SILENT, device="gpu", bound=None)]
    machine = catalogue.named("gh200")
    cpu = replace(machine, units=tuple(u for u in machine.units if u.device == "cpu"))
    text = " ".join(shown(rows, machine=cpu).split())
    assert "No ceiling is known for the GPU's rows: no GPU of this machine is known." in text
    assert "from DRAM" in text
    left_out = [rows[0], replace(rows[1], skipped="no CUDA device")]
    assert "No ceiling" not in shown(left_out, machine=cpu)


def test_all_wrong():
    text = shown([ROWS[4]])
    assert text.rstrip().endswith("last row.")


def test_nothing_to_multiply_fits_the_cache():
    small = replace(row("naive", 1e-6), problem=Problem(8, 8, 8))
    assert "intensity 1.3: compute-bound" in shown([small])
    wide = replace(small, threads=72)
    assert "intensity 1.3: stays in cache" in shown([wide])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (ROWS, "tiled is 1.8 times reordered; 1.2 times to numpy, 1.3 to the roof."),
        ([row("mine", 5.4e-3)], "mine: 2.0 times to the roof."),
        (ranked([row("mine", 2.9e-3), row("numpy", 2.9e-3 * 1.2, reference=True)]),
         "mine is 1.2 times numpy; 1.1 times to the roof."),
        (ranked([row("mine", 2.9e-3, spread=0.2), row("numpy", 2.9e-3 * 1.2, reference=True)]),
         "mine is 1.2 times numpy (their intervals overlap); 1.1 times to the roof."),
        ([row("mine", 5.4e-3, bound=None)], None),
        ([row("numpy", 5.4e-3, reference=True)], None),
    ],
)  # fmt: skip
def test_conclusion(rows, said):
    last = shown(rows).rstrip().splitlines()[-1].strip()
    assert last == said if said else "roof." not in last


def test_which_row_is_best_stands_out():
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(report(ROWS, GH200, VARIANTS))
    bold = [x for x in console.file.getvalue().splitlines() if "\x1b[1;32m" in x]
    assert len(bold) == 1
    assert "tiled" in bold[0]


# Files.


def test_json_is_strict():
    def never(constant):
        raise AssertionError(constant)

    rows = json.loads(as_json(ROWS), parse_constant=never)
    assert [r["variant"] for r in rows] == [r.variant for r in ROWS]
    assert rows[4]["timing"] is None
    assert rows[4]["verdict"] == {
        "ok": False,
        "error": None,
        "reason": "512 elements NaN, last row",
        "refused": None,
    }


def test_csv_has_one_header_whatever_was_found_out():
    headers = [as_csv(rows).splitlines()[0] for rows in (ROWS, ROWS[4:5], ROWS[6:7])]
    assert len(set(headers)) == 1
    names = headers[0].split(",")
    for name in ("variant", "problem.m", "verdict.ok", "timing.median_s", "bound.source.peak"):
        assert name in names
    assert "timing" not in names
    assert "problem.strided" not in names


def test_csv_can_be_read_back():
    awkward = replace(SILENT, variant='a "b", [x]\tü', skipped="two\nlines")
    (back,) = csv.DictReader(io.StringIO(as_csv([awkward])))
    assert back["variant"] == awkward.variant
    assert back["skipped"] == "two\nlines"
    assert back["timing.median_s"] == ""
    assert float(back["bound.ceiling_flops"]) == 1e11


def test_a_wrong_row_cannot_have_a_time():
    with pytest.raises(ValueError, match="right"):
        replace(row("naive", 1.0), verdict=Verdict(False))
