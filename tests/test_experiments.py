"""The article's figures stand beside this machine's, whatever this machine has."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments import common, n_sweep
from experiments.common import FP32, NAIVE, NUMPY, TF32
from sandbox.machine import Gpu, Machine, catalogue
from sandbox.problem import Problem
from sandbox.result import Bound, Result, Source, Timing, Verdict
from sandbox.roofline import work

NAMES = ("specifications", "ridge_points", "n_star", "n512", "roofline_512", "fixed_costs")
GH200 = catalogue.named("gh200")
WITH_GPU = replace(GH200, gpu=Gpu("", "NVIDIA GH200", "9.0", 132, 50_000_000, 0, 0, 0, 0))
WITHOUT = replace(GH200, units=tuple(u for u in GH200.units if u.device == "cpu"))
DEVICE = {NAIVE: "cpu", NUMPY: "cpu", FP32: "gpu", TF32: "gpu"}


def result(name: str, n: int, seconds: float, machine: Machine) -> Result:
    """A row as fast as the article's method of that name."""
    device, unit = DEVICE[name], "tf32" if name == TF32 else "fp32"
    threads = machine.cores if name == NUMPY else 1
    found = machine.unit(device, unit, threads)
    assert found
    bound = Bound(found.peak_flops, "compute", 85.3, 1.0, 1, Source("", ""), t0_s=1e-6)
    timing = Timing(seconds, seconds, seconds, 9)
    call = timing if device == "gpu" else None
    variant, problem = common.methods()[NAIVE][0].name if name == NAIVE else name, Problem(n, n, n)
    right = Verdict(True, 0.0)
    return Result(
        variant, device, True, unit, problem, threads, "warm", right, timing, call, bound=bound
    )


@pytest.fixture(params=[WITH_GPU, WITHOUT], ids=["grace and hopper", "grace"])
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run an experiment on the article's machine, or on its processor, and read what it keeps."""
    machine: Machine = request.param
    methods = [x for x in DEVICE if machine.gpu or DEVICE[x] == "cpu"]
    at_512 = {x: result(x, 512, common.SECONDS[x], machine) for x in methods}

    def sweep(*_: Any, **__: Any) -> list[Result]:
        return [
            result(NUMPY, n, 1e-4 + work(Problem(n, n, n).gemm) / 5e12, machine)
            for n in (32, 64, 128, 256, 512)
        ]

    def named(name: str) -> Any:
        module = importlib.import_module(f"experiments.{name}")
        for attribute, value in (("at_512", lambda _: at_512), ("measure", sweep)):
            if hasattr(module, attribute):
                monkeypatch.setattr(module, attribute, value)
        monkeypatch.setattr(module, "here", lambda: machine)
        module.main()
        (path,) = tmp_path.glob(f"{name}-*.json")
        assert path.stem.endswith("nvidia-gh200" if machine.gpu else "nvidia-gh200-72-cores")
        return json.loads(path.read_text(encoding="utf-8"))

    monkeypatch.setattr(common, "RESULTS", tmp_path)
    return named


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        (
            "specifications",
            ["7.10 TFLOP/s", "67.0 TFLOP/s", "494 TFLOP/s", "512 GB/s", "4.00 TB/s"],
        ),
        ("ridge_points", ["13.87", "16.75", "123.5"]),
        ("n_star", ["83", "101", "741", "1352", "883.9"]),
        ("n512", ["93.8 ms", "2.86", "0.040%", "1703", "24%", "1558", "23%", "2058", "4.2%"]),
        ("roofline_512", ["7100", "24%", "67000", "23%", "341333", "6.0%"]),
        ("fixed_costs", ["37.8 us", "6.14 us", "120 us", "13.2 us", "12.3 us", "1194", "2296"]),
    ],
)
def test_the_articles_figures(run: Any, capsys: Any, name: str, figures: list[str]) -> None:
    data = run(name)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines()[:-1])) <= 80
    for figure in figures:
        assert figure in out
    assert data["hardware"].startswith("NVIDIA GH200")


def test_the_articles_machine_agrees_with_the_article(run: Any) -> None:
    for row in run("n512")["rows"]:
        assert row.get("here_s") in (None, row["article_s"])
        if "here_of_peak" in row:
            assert row["here_of_peak"] == pytest.approx(row["article_of_peak"], rel=0.02)


def test_figures_are_kept_beside_the_data(run: Any, tmp_path: Path) -> None:
    run("roofline_512")
    (path,) = tmp_path.glob("roofline_512-*.svg")
    assert "numpy" in path.read_text(encoding="utf-8").lower()


def test_saturation(run: Any, capsys: Any) -> None:
    data = run("n_sweep")
    out = capsys.readouterr().out
    for figure in ("4.3", "45%", "63%", "77%", "81%"):
        assert figure in out
    assert {p["n"] for p in data["points"][NUMPY]} <= {32, 64, 128, 256, 512}


def test_each_method_is_measured_up_to_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, int] = {}

    def measure(rows: Any, sizes: Any, *_: Any, **__: Any) -> list[Result]:
        for v, _threads in rows:
            assert seen.get(v.name, 0) < min(sizes)
            seen[v.name] = max(sizes)
        return []

    monkeypatch.setattr(n_sweep, "measure", measure)
    assert list(n_sweep.swept(replace(WITHOUT, cores=2))) == []
    assert (seen["naive"], seen["numpy"], seen["cublas_tf32"]) == (1024, 2048, 8192)
