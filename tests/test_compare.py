"""The command: one line for every mistake, exit codes, what it prints and what it saves."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sandbox import compare as command
from sandbox import measure, registry, runner
from sandbox.compare import main
from sandbox.machine import detect

ROOT = Path(__file__).parents[1]
QUICK = ("--machine", "gh200", "--n", "32", "--rounds", "1")
NATURE = {"counters", "call", "clocks", "uncaptured",
    "variant", "device", "reference", "unit", "problem", "threads", "cache", "verdict", "timing",
    "bound", "ratio", "skipped", "traceback", "machine", "versions", "gflops", "of_roof",
    "impossible", "binds", "traffic", "levels", "parts", "call_parts",
}  # fmt: skip
MINE = '''
"""Idea: [x] and [/x]. More."""

from sandbox import variant


@variant("cpu", name="[x] [/x]")
def quick(a, b, out):
    out[...] = a @ b
'''
RAISES = """
from sandbox import variant


@variant("cpu")
def raises(a, b, out):
    raise ValueError("odd [x] and [/x] \\u2500 text")
"""
ZEROS = """
from sandbox import variant


@variant("cpu")
def zeros(a, b, out):
    out[...] = 0
"""


@pytest.fixture(autouse=True)
def _no_verdict_by_the_clock(monkeypatch):
    """One round beside other work proves nothing, and what is asked here is something else."""
    monkeypatch.setattr(measure, "remembers", lambda bursts: False)
    monkeypatch.setattr(measure, "clocks_disagree", lambda walls, bursts: False)


@pytest.fixture
def file(tmp_path):
    def write(text, name="mine.py"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


@pytest.fixture
def nothing_runs(monkeypatch):
    def run(*args):
        raise AssertionError("a mistake has to be found before anything runs")

    monkeypatch.setattr(runner, "run", run)
    monkeypatch.setattr(command, "this_machine", run)


def strict(text):
    def never(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=never)


def refused(answer, *words):
    code, out, err = answer
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    for word in words:
        assert word in err


# Mistakes.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nave"], ["'nave'", "did you mean 'naive'?"]),
        (["numpi"], ["did you mean 'numpy'?"]),
        (["xyzzy"], ["'xyzzy'", "--list"]),
        ([""], ["''", "--list"]),
        (["a\nb"], ["'a\\nb'"]),
        (["[x] [/x]"], ["[x] [/x]: No such file"]),
        (["naive", "nave"], ["'nave'"]),
        *((["--n", n], [f"--n: {n!r}"]) for n in ("0", "-5", "abc", "", "1e3", "1.5", "0x10")),
        (["--n", "32,,64"], ["--n"]),
        (["--n", "9" * 30], ["--n", "too large"]),
        (["--n", "9" * 5000], ["--n", "too large"]),
        (["--n", "9" * 12], ["GB"]),
        (["--n", "400000"], ["400000", "GB", "smaller"]),
        (["--batch", "99999999"], ["GB"]),
        (["--shape", "3x4"], ["'3x4'", "MxNxK"]),
        (["--shape", "3x0x4"], ["'0'"]),
        (["--shape", ""], ["MxNxK"]),
        (["--dtype", "float99"], ["'float99'", "float32", "float64"]),
        (["--layout", "xx"], ["'xx'", "nt"]),
        (["--cache", "hot"], ["'hot'", "cold"]),
        (["--threads", "9999"], ["9999", "1 to"]),
        (["--threads", "0"], ["'0'"]),
        (["--threads", "-1"], ["'-1'"]),
        (["--rounds", "0"], ["'0'"]),
        (["--batch", "0"], ["'0'"]),
        *((["--timeout", t], [repr(t)]) for t in ("0", "-1", "nan", "inf", "soon")),
        (["--json", "/nonexistent/dir/x.json"], ["/nonexistent/dir/x.json", "No such"]),
        (["--json", "/"], ["'/'", "directory"]),
        (["--json", ""], ["''"]),
        (["--json", "a\0b"], ["--json"]),
        (["--json"], ["--json"]),
        (["--csv", "-", "--json", "-"], ["--csv", "--json"]),
        (["--csv", "same", "--json", "same"], ["same"]),
        (["--plot", "a.svg", "--json", "./a.svg"], ["--json and --plot", "a.svg"]),
        (["--plot", "x.jpg"], ["--plot", "'x.jpg'", ".svg, .png, .pdf"]),
        (["--plot", "/nonexistent/x.svg"], ["/nonexistent/x.svg", "No such"]),
        (["--storage", "l2"], ["'l2'", "article"]),
        (["--machine", "nosuch"], ["'nosuch'", "gh200"]),
        (["--machine", ""], ["''", "gh200"]),
        (["/nonexistent/file.py"], ["/nonexistent/file.py: No such file"]),
        ([str(ROOT)], ["directory"]),
        ([str(ROOT / "pyproject.toml")], ["pyproject.toml"]),
        ([str(ROOT / "sandbox" / "problem.py")], ["problem.py", "no variant", "@variant"]),
        (["--bogus"], ["--bogus"]),
    ],
    ids=lambda x: " ".join(x)[:30].encode("unicode_escape").decode() if isinstance(x, list) else x,
)
def test_a_mistake_takes_one_line(nothing_runs, compare, arguments, words):
    refused(compare(*arguments), *words)


def test_a_device_that_is_not_there(compare):
    if torch.cuda.is_available():
        pytest.skip("it is there")
    code, out, err = compare("gpu", "--n", 64)
    assert code == 2
    assert len(err.splitlines()) == 1
    assert "CUDA" in err
    code, out, _ = compare("numpy", "cublas", "--n", 16, "--rounds", 1)
    assert code == 0
    assert "cublas, cublas_tf32 are left out: " in out


@pytest.mark.parametrize("text", ["def f(:\n", "x = 1\n", "", "\0"])
def test_a_file_that_is_no_variant(nothing_runs, compare, file, text):
    refused(compare(file(text, "[x].py")), "[x].py")


def test_a_name_that_is_taken(nothing_runs, compare, file):
    path = file(ZEROS.replace("zeros", "naive"))
    refused(compare(path), f"{path}:6: the name 'naive' is taken by ", "naive.py")


def test_what_is_too_large_allocates_nothing(nothing_runs, compare, monkeypatch):
    monkeypatch.setattr(detect, "available_bytes", lambda: 10**9)
    refused(compare("numpy", "--n", "5000"), "5000 x 5000 x 5000", "1.0 GB")


def test_a_mistake_leaves_no_file(nothing_runs, compare, tmp_path):
    refused(compare("nave", "--json", tmp_path / "x.json", "--csv", tmp_path / "x.csv"))
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_in_a_real_process():
    call = [sys.executable, "-m", "sandbox.compare", "--n", "0"]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True)
    refused((done.returncode, done.stdout, done.stderr), "'0'")


# Rows.


def test_json_rows(compare, tmp_path):
    path = tmp_path / "rows.json"
    code, out, err = compare("numpy", *QUICK, "--json", path)
    assert (code, err) == (0, "")
    rows = strict(path.read_text())
    names = [(r["variant"], r["threads"]) for r in rows]
    cores = sorted({1, detect.usable_cores()})
    assert names == [(name, t) for name in ("numpy", "torch") for t in cores]
    for r in rows:
        assert set(r) == NATURE
        assert r["problem"] == {
            "m": 32, "n": 32, "k": 32, "batch": 1, "dtype": "float32", "layout": "nn",
        }  # fmt: skip
        assert (r["device"], r["reference"], r["unit"], r["cache"]) == ("cpu", True, "fp32", "warm")
        assert set(r["verdict"]) >= {"ok", "error", "reason"}
        assert r["verdict"]["ok"] is True
        assert set(r["timing"]) == {"median_s", "low_s", "high_s", "rounds"}
        assert r["timing"]["low_s"] <= r["timing"]["median_s"] <= r["timing"]["high_s"]
        assert r["timing"]["rounds"] == 1
        keys = {"ceiling_flops", "bound_by", "intensity", "pebble_bytes", "compulsory_bytes"}
        assert set(r["bound"]) >= keys
        assert r["bound"]["source"] == {"peak": "datasheet", "bandwidth": "datasheet"}
        assert r["bound"]["compulsory_bytes"] == 3 * 32 * 32 * 4
        assert r["gflops"] == pytest.approx(2 * 32**3 / r["timing"]["median_s"] / 1e9)
        assert r["of_roof"] == pytest.approx(r["gflops"] * 1e9 / r["bound"]["ceiling_flops"])
        assert set(r["ratio"]) == {"value", "to"}
        assert r["skipped"] is None
        assert r["machine"] == "NVIDIA GH200"
        assert {"numpy", "torch", "numba"} <= set(r["versions"])
    assert "step" in out


def test_json_to_standard_output(compare):
    code, out, err = compare("numpy", *QUICK, "--threads", "1", "--json", "-")
    assert code == 0
    assert [r["variant"] for r in strict(out)] == ["numpy", "torch"]
    assert "step" in err


def test_csv_to_standard_output_and_json_to_a_file(compare, tmp_path):
    path = tmp_path / "rows.json"
    code, out, _ = compare("numpy", *QUICK, "--threads", "1", "--csv", "-", "--json", path)
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [r["variant"] for r in rows] == [r["variant"] for r in strict(path.read_text())]
    assert float(rows[0]["timing.median_s"]) == strict(path.read_text())[0]["timing"]["median_s"]


def test_levels_explanation_and_picture(compare, tmp_path):
    options = ("--levels", "--explain", "--plot", tmp_path / "a.svg", "--storage", "article")
    code, out, err = compare("numpy", *QUICK, "--threads", "1", *options, "--json", "-")
    assert (code, out[0]) == (0, "[")
    assert "fp32, 1 thread: numpy, torch" in err
    assert "Where the time goes" in err
    row = strict(out)[0]
    assert row["levels"][0]["name"] == "DRAM"
    assert row["levels"][0]["held_bytes"] == 117_000_000
    assert sum(x or 0 for x in row["parts"].values()) == pytest.approx(row["timing"]["median_s"])
    assert "numpy, 1 thread</text>" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_a_sweep_is_drawn_against_n_and_its_fixed_cost_fitted(compare, tmp_path):
    sizes = ("--machine", "gh200", "--rounds", "1", "--n", "8,16,24,32,48")
    picture = tmp_path / "a.png"
    code, out, _ = compare("numpy", *sizes, "--threads", "1", "--explain", "--plot", picture)
    assert code == 0
    assert "Fixed cost: T = T0" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_nothing(compare, file, tmp_path):
    picture = tmp_path / "a.pdf"
    code, _, err = compare(file(ZEROS), *QUICK, "--dtype", "float64", "--plot", picture)
    assert code == 2
    assert f"error: cannot draw {picture}: no row has both a time and a ceiling" in err
    assert not picture.exists()


def test_several_problems_with_batches_and_layouts(compare):
    arguments = ["--n", "16,24", "--shape", "8x16x24,1X2X3", "--batch", "3", "--layout", "tn"]
    arguments += ["--dtype", "float64", "--machine", "gh200", "--rounds", "1", "--threads", "1"]
    code, out, err = compare("numpy", *arguments, "--json", "-")
    assert code == 0
    problems = [r["problem"] for r in strict(out) if r["variant"] == "numpy"]
    sizes = [(p["m"], p["n"], p["k"]) for p in problems]
    assert sizes == [(16, 16, 16), (24, 24, 24), (8, 16, 24), (1, 2, 3)]
    facts = {(p["batch"], p["dtype"], p["layout"]) for p in problems}
    assert facts == {(3, "float64", "tn")}
    assert "3 of 8 x 16 x 24  float64  tn" in err
    assert "No ceiling is known for fp64" in err
    assert all(r["bound"] is None and r["of_roof"] is None for r in strict(out))


def test_one_step_means_the_ladder_up_to_it(compare, monkeypatch):
    seen = {}

    def run(plan, say):
        seen["names"] = [v.name for v, _ in plan.rows]
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", run)
    found = registry.discover()
    references = ["numpy", "torch"]
    steps = [v for v in found.variants if v.device == "cpu" and not v.reference]
    last = steps[-1]
    assert compare(last.name, *QUICK, "--threads", "1")[0] == 130
    assert seen["names"] == [v.name for v in found.ladder(last)] + references
    compare(last.name, "numpy", *QUICK, "--threads", "1")
    assert seen["names"] == [last.name, *references]
    for group in ("cpu", "all"):
        compare(group, *QUICK, "--threads", "1")
        assert seen["names"][-2:] == references or group == "all"
        assert {v.name for v in steps} <= set(seen["names"])
    compare(last.path, *QUICK, "--threads", "1")
    assert seen["names"] == [last.name, *references]


def test_a_file_of_the_users_own(compare, file):
    code, out, err = compare(file(MINE), *QUICK, "--threads", "1", "--json", "-")
    assert code == 0
    mine = strict(out)[0]
    assert mine["variant"] == "[x] [/x]"
    assert mine["verdict"]["ok"]
    assert mine["timing"]
    assert "\n [x] [/x]    1 " in err


def test_what_fails_has_its_traceback_and_exit_code(compare, file):
    raises, zeros = file(RAISES), file(ZEROS, "zeros.py")
    code, out, err = compare(raises, zeros, file(MINE, "c.py"), *QUICK, "--threads", "1")
    assert code == 1
    assert "raises (1 thread) failed: ValueError: odd [x] and [/x] " in out
    assert "zeros (1 thread) failed: " in out
    assert "Traceback" not in out
    assert err.count("Traceback (most recent call last)") == 1
    assert err.startswith("\nraises (1 thread):\nTraceback")
    assert f'  File "{raises}", line 7, in raises\n' in err
    assert "\nValueError: odd [x] and [/x] \u2500 text\n" in err
    assert " [x] [/x] " in out


def test_a_file_that_cannot_be_imported(compare, file):
    path = file("import no_such_module\n" + MINE)
    code, out, err = compare(path, *QUICK, "--threads", "1")
    assert code == 1
    assert "No module named 'no_such_module'" in " ".join(out.split())
    assert f'File "{path}", line 1' in err


def test_a_broken_file_among_the_built_in_ones_is_only_named(compare, monkeypatch):
    broken = registry.BrokenFile("a [x] b.py", 3, "syntax error: [/x]")
    whole = registry.discover()
    whole.broken.append(broken)
    monkeypatch.setattr(command, "discover", lambda: whole)
    code, out, err = compare("numpy", *QUICK, "--threads", "1")
    assert code == 0
    assert err == "warning: a [x] b.py:3: syntax error: [/x]\n"
    assert "numpy" in out


def test_half_precision_is_right_or_left_out_in_few_words(compare):
    arguments = ["--machine", "gh200", "--n", "16", "--rounds", "1", "--threads", "1"]
    code, out, err = compare("cpu", *arguments, "--dtype", "float16", "--json", "-")
    assert code == 0
    assert "Traceback" not in err
    for r in strict(out):
        assert r["skipped"] or r["verdict"]["ok"]
        assert len(r["skipped"] or "") < 60


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3"])
def test_what_numpy_has_not_is_refused_in_words(compare, dtype):
    code, _, err = compare("numpy", *QUICK, "--threads", "1", "--dtype", dtype)
    assert code == 2
    assert err == f"error: numpy: NumPy has no {dtype}\n"


def test_a_timeout_is_said(compare, file):
    path = file(ZEROS.replace("out[...] = 0", "\n    while True: pass"))
    code, out, _ = compare(path, *QUICK, "--threads", "1", "--timeout", "0.5")
    assert code == 1
    assert "no end of verification within 0.5 s (--timeout gives it more)" in " ".join(out.split())


def test_what_was_judged_is_saved_when_interrupted(compare, monkeypatch, tmp_path):
    real = runner.run

    def run(plan, say):
        yield from real(plan, say)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", run)
    path = tmp_path / "x.json"
    assert compare("numpy", *QUICK, "--threads", "1", "--json", path)[0] == 130
    assert len(strict(path.read_text())) == 2


# The terminal.


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_no_line_is_too_wide(compare, file, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, _ = compare(file(ZEROS), *QUICK, "--threads", "1", "--levels", "--explain")
    assert code == 1
    assert max(map(len, out.splitlines())) <= columns
    assert "…" not in out


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_an_encoding_that_lacks_characters(monkeypatch, file, encoding):
    raw = io.BytesIO(), io.BytesIO()
    for name, stream in zip(("stdout", "stderr"), raw, strict=True):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(stream, encoding=encoding))
    assert main([str(file(RAISES)), *QUICK, "--threads", "1"]) == 1
    sys.stdout.flush()
    sys.stderr.flush()
    out, err = (stream.getvalue().decode(encoding) for stream in raw)
    assert "odd [x] and [/x] \\u2500 text" in out
    assert "odd [x] and [/x] \\u2500 text" in err


def test_a_real_process_without_colour_and_without_characters(file):
    """NO_COLOR wins over FORCE_COLOR, and means no escape sequence of any kind."""
    wishes = {"NO_COLOR": "1", "FORCE_COLOR": "1", "PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    call = [sys.executable, "-m", "sandbox.compare", str(file(RAISES)), *QUICK, "--threads", "1"]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, env=os.environ | wishes)
    assert done.returncode == 1
    assert b"\x1b" not in done.stdout + done.stderr
    assert (done.stdout + done.stderr).isascii()
    assert b"\n numpy" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("arguments", [("--help",), ("--list",), ("numpy", *QUICK, "--json", "-")])
def test_a_reader_that_has_gone(monkeypatch, capfd, arguments):
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        try:
            code = main(list(arguments))
        except SystemExit as end:
            code = end.code
        assert code in (0, None)
    assert "Broken" not in capfd.readouterr().err


def test_a_pipe_to_head():
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    call = f'"{sys.executable}" -m sandbox.compare numpy {" ".join(QUICK)} --threads 1 | head -1'
    done = subprocess.run(
        call, shell=True, cwd=ROOT, capture_output=True, text=True, env=environment
    )
    assert done.stdout.startswith(" C = A B   32 x 32 x 32  float32  nn  warm")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_step_after_nothing_known_is_refused(compare, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(ZEROS.replace('"cpu"', '"cpu", after="reorderd"'))
    code, out, err = compare(str(path), *QUICK)
    assert (code, out) == (2, "")
    assert "zeros: no step is called 'reorderd': did you mean 'reordered'?" in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_a_disk_that_is_full(compare):
    code, _, err = compare("numpy", *QUICK, "--threads", "1", "--json", "/dev/full")
    assert code == 2
    assert err == "error: cannot write /dev/full: No space left on device\n"


def test_the_listing(compare):
    code, out, err = compare("--list")
    assert (code, err) == (0, "")
    names = [x.split()[0] for x in out.splitlines()[1:] if x[:1] != " "]
    assert names == [v.name for v in registry.discover().variants]
    assert max(map(len, out.splitlines())) <= 80


def test_the_help(compare):
    code, out, err = compare("--help")
    assert (code, err) == (0, "")
    assert "--shape" in out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize(
    "command",
    ["compare --list", "roofline --machines", "roofline --machine h200 --json /dev/full"],
)
def test_no_room_for_the_output_is_said_in_a_line(command):
    with Path("/dev/full").open("w") as full:
        given = [sys.executable, "-m", "sandbox", *command.split()]
        done = subprocess.run(given, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "No space left" in done.stderr
