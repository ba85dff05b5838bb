"""Every variant for a GPU against torch.matmul: in Triton's interpreter, with --gpu on the GPU."""

import json
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from sandbox import registry
from sandbox.problem import ITEMSIZE, Problem

STEPS = {v.name: v for v in registry.discover().variants if v.device == "gpu" and not v.reference}
GLUON = [name for name, v in STEPS.items() if "gluon" in v.path.read_text()]
VIEWS = ("plain", "fortran", "sliced", "misaligned")
SMALL = ((1, 1, 1), (5, 7, 1), (0, 5, 3), (5, 0, 3), (5, 3, 0))
LARGE = (
    (1, 37, 64), (33, 1, 65), (16, 16, 700), (127, 129, 65), (257, 31, 100), (31, 257, 100),
    (96, 200, 300), (130, 260, 72), (1000, 1000, 1000), (1025, 513, 257), (300, 5000, 40),
)  # fmt: skip


@pytest.fixture(scope="module")
def on_gpu(request):
    return request.config.getoption("--gpu")


@pytest.fixture(scope="module")
def verdict(on_gpu):
    """check() in a process of its own, where Triton interprets unless there is a GPU."""
    with ProcessPoolExecutor(1, get_context("spawn"), _interpret, (on_gpu,)) as pool:
        yield lambda *args, **sizes: pool.submit(check, *args, **sizes).result()


def _interpret(on_gpu):
    os.environ["TRITON_INTERPRET"] = str(int(not on_gpu))


def place(x, view):
    """A copy of x (rows, cols) with NaN round it, and all of the buffer it lies in."""
    import torch

    rows, cols = x.shape
    if view == "sliced":
        raw = torch.full((2 * rows + 5, 3 * cols + 7), torch.nan, device=x.device).to(x.dtype)
        inner = raw[2 : 2 + 2 * rows : 2, 3 : 3 + 3 * cols : 3]
    else:
        start = 33 if view == "misaligned" else 32
        raw = torch.full((x.numel() + 96,), torch.nan, device=x.device).to(x.dtype)
        inner = raw[start : start + x.numel()].view(x.T.shape if view == "fortran" else x.shape)
        inner = inner.T if view == "fortran" else inner
    inner.copy_(x)
    return inner, raw


def check(name, dtype, shape, layout="nn", view="plain", row_stride=None):
    """ "" where it is right, or what is wrong with it; None where it refuses in words.

    `row_stride` makes a and out columns of something so wide.
    """
    import torch
    import triton

    from sandbox.verify import UNIT_ROUNDOFF

    v, kernel = STEPS[name], registry.load(STEPS[name])
    m, n, k = shape
    problem = Problem(m, n, k, dtype=dtype, layout=layout, strided=view != "plain")
    if why := kernel.refuses(problem):
        return None if "\n" not in why else why
    run = kernel.run(problem)
    device = "cpu" if triton.knobs.runtime.interpret else "cuda"
    torch.manual_seed(m + n + k)
    kind = getattr(torch, dtype.replace("e4m3", "e4m3fn"))
    a, b = (torch.randn(s, device=device).to(kind) for s in ((m, k), (k, n)))
    a_view, b_view = (
        place(x, "fortran" if way == "t" else view)[0]
        for x, way in zip((a, b), layout, strict=True)
    )
    empty = torch.full((m, n), torch.nan, device=device)
    out, raw = place(empty.to(torch.bfloat16 if kind.itemsize == 1 else kind), view)
    if row_stride:
        a_view = torch.empty(m, row_stride, dtype=kind, device=device)[:, -k:].copy_(a)
        out = torch.empty(m, row_stride, dtype=out.dtype, device=device)[:, -n:].copy_(out)
    run(a_view, b_view, out)

    some = torch.arange(0, m, max(1, m // 1000), device=device)
    got, left, right = out[some].double(), a[some].double(), b.double()
    reference, magnitude = left @ right, left.abs() @ right.abs()
    tf32 = v.unit_for(dtype) == "tf32"
    info = torch.finfo(out.dtype)
    allowance = (8 * k**0.5 * UNIT_ROUNDOFF[dtype] + tf32 * 2**-9) * magnitude
    allowance += info.eps / 2 * reference.abs() + info.smallest_normal * info.eps / 2
    wrong = ~((got - reference).abs() <= allowance)
    if wrong.any():
        return f"{int(wrong.sum())} of {wrong.numel()} wrong, first {wrong.nonzero()[0].tolist()}"
    if not torch.equal(a_view.double(), a.double()) or not torch.equal(b_view.double(), b.double()):
        return "changes an input"
    kept = raw.numel() - out.numel()
    return "" if row_stride or int(raw.isnan().sum()) == kept else "writes outside out"


def right(found):
    assert not found
    return found is not None


def cases(on_gpu):
    yield from ((shape, "nn", "plain") for shape in SMALL)
    yield from (((3, 9, 33), "nn", view) for view in VIEWS)
    yield from (((3, 9, 17), layout, "plain") for layout in ("nt", "tn", "tt"))
    if on_gpu:
        yield from ((shape, "nn", view) for shape in LARGE for view in VIEWS)
        yield from (((1024, 768, 512), layout, "plain") for layout in ("nn", "nt", "tn", "tt"))
        yield from (((300, 200, 100), layout, "misaligned") for layout in ("nt", "tn", "tt"))
        yield (4096, 4096, 4096), "nn", "plain"


@pytest.mark.parametrize("dtype", ITEMSIZE)
@pytest.mark.parametrize("name", STEPS)
def test_right_or_refused_in_words(name, dtype, on_gpu, verdict):
    if not on_gpu and name in GLUON:
        pytest.skip("Gluon has no interpreter")
    if not on_gpu and dtype == "bfloat16":
        pytest.skip("the interpreter's tl.dot multiplies the bits of bfloat16")
    for shape, layout, view in cases(on_gpu):
        found = verdict(name, dtype, shape, layout, view)
        assert not found, (shape, layout, view, found)


def test_tiles_end_within_a_matrix(on_gpu, verdict):
    for name in ("tensorcore", "grouped", "pipelined", "persistent"):
        assert right(verdict(name, "float32", (150, 300, 70), "nt"))


@pytest.mark.parametrize("name", STEPS)
def test_offsets_past_two_to_the_31(name, on_gpu, verdict):
    if not on_gpu:
        pytest.skip("needs a GPU's memory")
    for dtype in ("float32", "float16"):
        assert verdict(name, dtype, (70000, 64, 40), row_stride=40000) in ("", None)
    if name != "element":
        assert verdict(name, "float16", (50000, 50000, 16)) in ("", None)


def test_the_figures_are_there_and_hold():
    pytest.importorskip("triton")
    from experiments.gpu_ladder import RESULTS, RUNS, SIZES, shortfalls

    found = json.loads((RESULTS / "gpu_ladder.json").read_text())
    assert found.keys() == {"date", "device", "versions", "rows"}
    assert found["versions"].keys() == {"torch", "triton", "cuda"}
    for row in found["rows"]:
        assert row["least"] <= row["seconds"] <= row["most"]
        assert row["tflops"] == pytest.approx(2e-12 * row["n"] ** 3 / row["seconds"])
        assert row["sm_mhz"] > 0
        assert row["watts"] > 0
        assert row["celsius"] > 0
    assert {(r["dtype"], r["layout"], r["unit"], r["n"]) for r in found["rows"]} == {
        (*run, n) for run in RUNS for n in SIZES
    }
    assert STEPS.keys() <= {r["step"] for r in found["rows"]}
    assert not list(shortfalls(found["rows"]))
