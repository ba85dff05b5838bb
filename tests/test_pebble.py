"""The command `pebble`: what it prints, what it saves, and one line for each mistake."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.commands import pebble
from sandbox.problem import Problem
from sandbox.report import curves
from sandbox.result import Point

ROOT = Path(__file__).parents[1]
MINE = '''
"""Idea: mine."""

from numba import njit

from sandbox import variant


@variant("cpu")
@njit
def mine(a, b, out):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = 0 * a[0, 0]
            for p in range(a.shape[1]):
                total += a[i, p] * b[p, j]
            out[i, j] = total
'''
FIELDS = {
    "variant", "problem", "granularity", "replacement", "cache_bytes", "near_bytes",
    "moved_bytes", "bound_bytes", "best_schedule_bytes",
}  # fmt: skip


@pytest.fixture
def run(capsys):
    def run(*arguments):
        try:
            code = pebble.main([str(a) for a in arguments])
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["NAME"]),
        (["nave"], ["'nave'", "did you mean 'naive'?"]),
        (["naive", "--fast-memory", "16"], ["--fast-memory 16", "64 bytes or more"]),
        (["naive", "--fast-memory", "0"], ["'0'"]),
        (["naive", "--fast-memory", "32XB"], ["'32XB'", "32KiB"]),
        (["naive", "--n", "0"], ["'0'"]),
        (["naive", "--n", "4096"], ["minutes", "--yes"]),
        (["naive", "--shape", "2x3x4,5x6x7"], ["one shape"]),
        (["naive", "--plot", "/nonexistent/x.svg"], ["/nonexistent/x.svg"]),
        (["naive", "--plot", "a.svg", "--json", "./a.svg"], ["--plot and --json", "a.svg"]),
        (["naive", "--plot", "x.odd"], ["x.odd", "svg"]),
        ([str(ROOT / "sandbox" / "problem.py")], ["no variant", "@variant"]),
        (["/nonexistent/mine.py"], ["/nonexistent/mine.py"]),
    ],
    ids=lambda x: " ".join(x)[-30:] if isinstance(x, list) else x,
)
def test_a_mistake_takes_one_line(run, monkeypatch, arguments, words):
    monkeypatch.setattr(pebble, "points", lambda *args: pytest.fail("nothing may run"))
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_tables_curves_and_points(run, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    saved, drawn = tmp_path / "points.json", tmp_path / "curves.svg"
    code, out, err = run(
        "naive", tmp_path / "mine.py", "numpy", "--n", "24", "--json", saved, "--plot", drawn
    )
    assert code == 0
    assert "numpy cannot be traced: it calls no function that Numba compiled" in err
    assert max(map(len, out.splitlines())) <= 80
    assert out.isascii()
    assert "mine" in drawn.read_text()
    points = json.loads(saved.read_text())
    assert all(set(p) == FIELDS for p in points)
    assert {p["variant"] for p in points} == {"naive", "mine"}
    kinds = {(p["granularity"], p["replacement"]) for p in points}
    assert kinds == {(g, r) for g in ("word", "line") for r in ("lru", "opt")}
    assert {p["cache_bytes"] for p in points} == {1 << x for x in range(10, 14)}
    for p in points:
        assert p["near_bytes"] > p["cache_bytes"]
        assert p["bound_bytes"] <= min(p["moved_bytes"], p["best_schedule_bytes"])
        assert p["problem"]["m"] == 24
    all_fits = [p for p in points if p["cache_bytes"] == 8192 and p["granularity"] == "word"]
    assert {p["moved_bytes"] for p in all_fits} == {4 * 3 * 24 * 24}


def test_one_cache_alone_to_standard_output(run):
    code, out, err = run("naive", "--shape", "8x16x130", "--fast-memory", "4KiB", "--json", "-")
    assert code == 0, err
    points = json.loads(out)
    assert [(p["granularity"], p["replacement"]) for p in points] == [
        ("word", "lru"),
        ("line", "lru"),
    ]
    assert [p["cache_bytes"] for p in points] == [4096, 4096]


def test_nothing_that_can_be_traced(run):
    code, out, err = run("numpy", "--n", "8")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_an_interrupt_keeps_what_is_done(run, monkeypatch, tmp_path):
    point = Point("naive", Problem(8, 8, 8), "word", "lru", 1024, 2048, 768, 768.0, 768)

    def points(v, problem, sizes, *rest):
        if v.name != "naive":
            raise KeyboardInterrupt
        return [point]

    monkeypatch.setattr(pebble, "points", points)
    saved = tmp_path / "points.json"
    code, out, _ = run("naive", "tiled", "simd", "--n", "8", "--json", saved)
    assert code == 130
    assert "naive" in out
    assert [p["variant"] for p in json.loads(saved.read_text())] == ["naive"]


@pytest.mark.parametrize("size", [(64, "64 B"), (1 << 10, "1 KiB"), (3 << 19, "1.5 MiB")])
def test_sizes_as_they_are_sold(size):
    assert curves.size_name(size[0]) == size[1]


def test_help_is_quick_to_load():
    code = "import sys; from sandbox.__main__ import main; sys.argv = ['s', 'pebble', '--help'];"
    code += "import atexit; atexit.register(lambda: print({'numba', 'torch', 'matplotlib'} & "
    code += "set(sys.modules), file=sys.stderr)); main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "--fast-memory" in done.stdout
    assert done.stderr.strip() == "set()"


def test_traffic_of_a_comparison(compare, tmp_path):
    saved, table = tmp_path / "rows.json", tmp_path / "rows.csv"
    code, out, err = compare(
        "naive", "--n", "40", "--rounds", "1", "--threads", "1", "--machine", "gh200",
        "--traffic", "--fast-memory", "4KiB", "--json", saved, "--csv", table,
    )  # fmt: skip
    assert code == 0, err
    assert "naive" in out.split("moved")[1]
    assert "numpy is not traced" in out
    assert max(map(len, out.splitlines())) <= 80
    rows = {r["variant"]: r["traffic"] for r in json.loads(saved.read_text())}
    moved, bound = rows["naive"]["moved_bytes"], rows["naive"]["bound_bytes"]
    assert list(moved) == ["L1", "DRAM"]
    assert moved["L1"] == 4 * (2 * 40**3 + 40**2)
    assert all(moved[name] >= bound[name] for name in moved)
    assert rows["naive"]["over_bound"]["DRAM"] == moved["DRAM"] / bound["DRAM"]
    assert rows["numpy"]["moved_bytes"] == {}
    assert "traffic.moved_bytes.DRAM" in table.read_text().splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--n", "4096"], ["--traffic", "minutes", "--yes"]),
        (["--fast-memory", "16"], ["16 bytes", "line"]),
        (["--machine", "h200"], ["h200", "--fast-memory"]),
    ],
)
def test_mistakes_of_a_comparison(compare, arguments, words):
    code, out, err = compare("naive", "--traffic", *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    for word in words:
        assert word in err
