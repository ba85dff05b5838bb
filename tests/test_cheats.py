"""Every wrong or cheating variant is refused for the reason its file names; honest ones are not."""

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sandbox import runner
from sandbox.machine import Machine
from sandbox.plan import Plan
from sandbox.problem import Problem
from sandbox.registry import Variant, discover, read

HERE = Path(__file__).parent
MACHINE = Machine("none", 1, 1, (), "no ceilings")
PROBLEM = Problem(96, 96, 96)
HANGS = ("never_returns", "sleeps_in_import")
CHEATS = {path.stem: path for path in sorted((HERE / "cheats").glob("[!g]*.py"))}
GPU_CHEATS = {path.stem: path for path in sorted((HERE / "cheats").glob("gpu_*.py"))}
HONEST = ("honest", "numpy", "torch")


def given(verdict, path: Path) -> bool:
    """Does the verdict give a reason that the file names?"""
    reasons = reason(path)
    return any(r in verdict.reason for r in ([reasons] if isinstance(reasons, str) else reasons))


def reason(path: Path) -> str | tuple[str, ...]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "REASON":
            return ast.literal_eval(node.value)
    raise LookupError(f"{path.name} has no REASON")


def judged(variants: list[Variant], timeout=300):
    rows = [(v, 2 if v.parallel else 1) for v in variants]
    (results,) = runner.run(Plan(rows, [PROBLEM], MACHINE, rounds=6, timeout=timeout))
    found: dict[str, list] = {}
    for result in results:
        found.setdefault(result.variant, []).append(result)
    return found


@pytest.fixture(scope="module")
def results():
    registry = discover()
    honest = [v for v in registry.variants if v.reference and v.device == "cpu"]
    honest += read(HERE / "variants" / "honest.py")
    ending = [v for name, path in CHEATS.items() if name not in HANGS for v in read(path)]
    hanging = [v for name in HANGS for v in read(CHEATS[name])]
    with pytest.MonkeyPatch.context() as patch:
        # Workers import the caller's main module again: here that would be pytest.
        patch.setitem(sys.modules, "__main__", ModuleType("__main__"))
        return judged(honest + ending) | judged(hanging, timeout=3)


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_refused_for_its_reason(results, name):
    for result in results[name]:
        assert not result.verdict.ok
        assert given(result.verdict, CHEATS[name]), result.verdict.reason
        assert result.timing is None


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_variant_is_timed(results, name):
    for result in results[name]:
        assert result.verdict.ok, result.verdict.reason
        assert 0 < result.timing.low_s <= result.timing.median_s <= result.timing.high_s
        assert result.verdict.error <= 1


@pytest.fixture(scope="module")
def gpu_results():
    references = [v for v in discover().variants if v.reference and v.device == "gpu"]
    return judged(references + [v for p in GPU_CHEATS.values() for v in read(p)], timeout=30)


@pytest.mark.gpu
@pytest.mark.parametrize("name", GPU_CHEATS)
def test_a_cheat_on_a_gpu_is_refused_for_its_reason(gpu_results, name):
    (result,) = gpu_results[name]
    assert not result.verdict.ok
    assert given(result.verdict, GPU_CHEATS[name]), result.verdict.reason
    assert result.timing is None


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["cublas", "cublas_tf32"])
def test_a_library_on_a_gpu_is_timed(gpu_results, name):
    (result,) = gpu_results[name]
    assert result.verdict.ok, result.verdict.reason
    assert 0 < result.timing.median_s < result.call.median_s
    assert result.uncaptured is None


def test_an_exception_comes_with_its_traceback(results):
    (result,) = results["raises"]
    assert 'raise ValueError("no such shape")' in result.traceback


def test_a_lazy_variant_is_told_when_it_was_found(results):
    (result,) = results["lazy"]
    assert result.verdict.reason.startswith("while it was timed, 96 x 96 x 96: ")
