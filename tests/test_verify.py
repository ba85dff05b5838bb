"""The allowance admits every honest product and no other; reasons say what is wrong and where."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import cases, verify
from sandbox.cases import Case
from sandbox.problem import Problem
from sandbox.verify import Trial

DTYPES = ("float64", "float32", "float16")
sizes = st.integers(0, 40)


def numpy_product(a, b, out):
    with np.errstate(all="ignore"):
        np.matmul(a, b, out=out)


def torch_product(a, b, out):
    torch.matmul(torch.from_numpy(a), torch.from_numpy(b), out=torch.from_numpy(out))


def tried(run, case, seed=0, accuracy=None, batched=False):
    trial = Trial(case, batched, accuracy or case.problem.dtype, seed)
    trial.call(run)
    return trial.verdict()


def case(m, n, k, dtype="float32", data="normal", view="plain", **options):
    return Case(Problem(m, n, k, dtype=dtype, **options), data, view)


def after(change):
    """The right product, and then a mistake."""

    def run(a, b, out):
        numpy_product(a, b, out)
        change(out)

    return run


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("data", ["normal", "positive", "tiny", "integers", "wide"])
@pytest.mark.parametrize("k", [1, 2, 16, 300, 4096])
@pytest.mark.parametrize("run", [numpy_product, torch_product])
def test_references_never_fail(run, dtype, data, k):
    for seed in range(20 if k < 4096 else 4):
        found = tried(run, case(13, 11, k, dtype, data), seed)
        assert found.ok, found.reason
        assert found.error <= 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_numpy_passes_all_cases(dtype, layout):
    found = verify.judge(
        lambda problem: numpy_product,
        lambda problem: "",
        Problem(50, 60, 70, dtype=dtype, layout=layout),
        batched=True,
        accuracy=dtype,
        parallel=False,
    )
    assert found.ok, found.reason


@pytest.mark.parametrize("dtype", list(cases.DTYPES))
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_torch_passes_all_cases_as_on_a_gpu(monkeypatch, dtype, layout):
    """Tensors of every dtype are judged by the same rules; here they lie on the CPU."""
    monkeypatch.setitem(verify.WHERE, "gpu", "cpu")

    def rounded_once(a, b, out):
        out.copy_(a.double() @ b.double())

    def judged(run):
        problem = Problem(50, 60, 70, dtype=dtype, layout=layout)
        options = {"batched": False, "accuracy": dtype, "parallel": False, "device": "gpu"}
        return verify.judge(lambda problem: run, lambda problem: "", problem, **options)

    found = judged(rounded_once)
    assert found.ok, found.reason
    assert not judged(lambda a, b, out: out.zero_()).ok
    assert not judged(lambda a, b, out: rounded_once(a[:, :-1], b[:-1], out)).ok


@settings(max_examples=60, deadline=None)
@given(m=sizes, n=sizes, k=sizes, seed=st.integers(0, 2**31), dtype=st.sampled_from(DTYPES),
       view=st.sampled_from(["plain", *cases.VIEWS]), layout=st.sampled_from(["nn", "nt", "tn"]),
       batch=st.integers(1, 3), data=st.sampled_from(["normal", *cases.DATA[:4]]))  # fmt: skip
def test_any_shape_and_view_is_judged_right(m, n, k, seed, dtype, view, layout, batch, data):
    what = case(m, n, k, dtype, data, view, batch=batch, layout=layout)
    found = tried(numpy_product, what, seed)
    assert found.ok, found.reason
    if m and n:
        assert not tried(lambda a, b, out: None, what, seed).ok
        assert not tried(after(lambda out: out.__setitem__((-1, -1), np.nan)), what, seed).ok


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("data", ["normal", "tiny", "positive", "integers", "wide"])
@pytest.mark.parametrize("k", [1, 64, 4096])
def test_zeros_never_pass(dtype, data, k):
    found = tried(lambda a, b, out: out.fill(0), case(8, 9, k, dtype, data))
    assert not found.ok
    assert "all zero" in found.reason


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_never_passes(dtype, value):
    for data in ("normal", "tiny", "integers"):
        everywhere = tried(lambda a, b, out: out.fill(value), case(8, 9, 30, dtype, data))
        somewhere = tried(after(lambda out: out.__setitem__((3, 4), value)), case(8, 9, 30, dtype))
        assert not everywhere.ok
        assert not somewhere.ok
        assert everywhere.error is None


def cut(bits):
    mask = np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)

    def run(a, b, out):
        np.matmul(*((x.view(np.uint32) & mask).view(np.float32) for x in (a, b)), out=out)

    return run


@pytest.mark.parametrize("k", [1, 16, 64, 300])
@pytest.mark.parametrize(("bits", "name"), [(13, "TF32"), (16, "BF16")])
def test_rounded_inputs_are_refused_and_named(k, bits, name):
    for seed in range(5):
        found = tried(cut(bits), case(20, 30, k), seed)
        assert not found.ok
        assert f"no more accurate than {name}" in found.reason or k == 300


def test_tf32_is_let_pass_where_it_is_declared():
    for data in ("normal", "tiny", "positive", "integers", "wide"):
        for seed in range(5):
            assert tried(cut(13), case(20, 30, 64, data=data), seed, "tf32").ok
            assert data == "integers" or not tried(cut(16), case(20, 30, 64), seed, "tf32").ok


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_products_allow_no_error(dtype):
    for data in ("integers", "wide"):
        nudge = after(
            lambda out: out.__setitem__((2, 3), np.nextafter(out[2, 3], out.dtype.type(9999)))
        )
        found = tried(nudge, case(8, 9, 30, dtype, data))
        assert not found.ok
        assert "1 of 72 elements wrong" in found.reason
        assert "first c[2, 3] = " in found.reason


def product_of(a, b, monkeypatch, run, dtype="float16"):
    """The verdict on a product of given matrices."""
    a, b = (torch.from_numpy(np.array(x, dtype)[None]) for x in (a, b))
    monkeypatch.setattr(verify, "inputs", lambda case, seed: (a.clone(), b.clone()))
    return tried(run, case(a.shape[1], b.shape[2], a.shape[2], dtype))


@pytest.mark.parametrize(
    ("a", "b", "right", "wrong"),
    [
        ([[300]], [[300]], [np.inf], [65504, -np.inf, np.nan, 0]),
        ([[-300]], [[300]], [-np.inf], [-65504, np.inf, np.nan]),
        ([[255, 15]], [[256], [16]], [np.inf, 65504], [65000, -np.inf, np.nan]),  # 65520
        ([[255, 14]], [[256], [15]], [65504, np.inf], [-np.inf, np.nan]),  # 65490
        ([[np.inf]], [[-1]], [-np.inf], [np.inf, 0, -65504, np.nan]),
        ([[np.inf, 1]], [[0], [1]], [np.nan], [np.inf, 0, 1]),
        ([[1e-7]], [[0.25]], [0, 6e-8], [1e-6, np.nan]),
    ],
)
def test_at_the_ends_of_the_range(monkeypatch, a, b, right, wrong):
    for values, expected in ((right, True), (wrong, False)):
        for value in values:
            found = product_of(a, b, monkeypatch, lambda x, y, out, v=value: out.fill(v))
            assert found.ok == expected, value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c[-1].fill(np.nan), "9 of 72 elements NaN, the last row; first c[7, 0] = nan"),
        (lambda c: c[2].fill(7), "9 of 72 elements wrong, row 2; first c[2, 0] = 7, not "),
        (lambda c: c[5:].fill(7), "27 of 72 elements wrong, rows from 5 on; first c[5, 0] = 7"),
        (lambda c: c[:, -1].fill(7), "8 of 72 elements wrong, the last column; first c[0, 8] = 7"),
        (lambda c: c[:, 4].fill(7), "8 of 72 elements wrong, column 4; first c[0, 4] = 7, not "),
        (lambda c: c[:, 8:].fill(7), "the last column"),
        (lambda c: c[:, 6:].fill(7), "24 of 72 elements wrong, columns from 6 on; first c[0, 6]"),
        (lambda c: c.fill(np.nan), "72 of 72 elements NaN; first c[0, 0] = nan"),
    ],
)
def test_reasons_name_the_pattern_and_the_first_element(change, words):
    found = tried(after(change), case(8, 9, 30))
    assert found.reason.startswith("8 x 9 x 30: ")
    assert words in found.reason


def test_reasons_name_what_was_not_written():
    found = tried(lambda a, b, out: numpy_product(a[:-1], b, out[:-1]), case(8, 9, 30))
    assert "9 of 72 elements never written, the last row; first c[7, 0] = unwritten" in found.reason
    found = tried(lambda a, b, out: None, case(8, 9, 30, batch=2))
    assert "first c[0, 0, 0] = unwritten" in found.reason


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda a, b, out: np.copyto(out, (a @ b).T), "the transpose of the product"),
        (lambda a, b, out: np.copyto(out, a @ b.T), "a times b transposed"),
        (lambda a, b, out: np.copyto(out, a.T @ b), "a transposed times b"),
    ],
)
def test_reasons_name_transposes(run, words):
    assert words in tried(run, case(20, 20, 20)).reason


@pytest.mark.parametrize("view", ["plain", *cases.VIEWS])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("ahead", [False, True])
def test_guard_bands_see_a_single_element(view, which, ahead):
    """A write just outside of an array, or between its elements, in either direction."""
    trial = Trial(case(6, 7, 8, view=view), False, "float32", 0)
    placed = (trial._given_a, trial._given_b, trial._out)[which]
    raw = placed._raw.numpy().reshape(-1)
    start = (np.lib.array_utils.byte_bounds(placed.given)[ahead] - raw.ctypes.data) // 4

    def run(a, b, out):
        numpy_product(a, b, out)
        raw[start if ahead else start - 1] = 0

    trial.call(run)
    where = ("its input a", "its input b", "out")[which]
    assert f"writes outside {where}" in trial.verdict().reason


@pytest.mark.parametrize("which", [0, 1])
def test_inputs_come_back_bit_for_bit(which):
    def run(*arrays):
        numpy_product(*arrays)
        arrays[which][1, 1] = np.nextafter(arrays[which][1, 1], np.float32(9))

    assert f"changes its input {'ab'[which]}" in tried(run, case(6, 7, 8)).reason


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_changed_reference_is_the_recomputed_one(dtype, batch, batched):
    rng = np.random.default_rng(5)
    trial = Trial(case(13, 17, 11, dtype, batch=batch), batched, dtype, 0)
    trial.call(numpy_product)
    assert trial.verdict().ok
    for _ in range(4):
        for _ in range(3):
            trial.choose(rng)
            trial.poison()
            for _ in range(3):
                trial.change(rng.standard_normal())
                trial.call(numpy_product)
        assert trial.verdict().ok
        for found, whole in zip(trial._expected(), verify._oracle(trial._a, trial._b), strict=True):
            np.testing.assert_allclose(found, whole, rtol=1e-13, atol=1e-13)
        np.testing.assert_array_equal(trial._a, trial._given_a.given)


def changed(run, calls=3, batch=1):
    """The verdict after calls on numbers that change before each."""
    rng = np.random.default_rng(5)
    trial = Trial(case(13, 17, 11, batch=batch), False, "float32", 0)
    trial.choose(rng)
    trial.poison()
    for _ in range(calls):
        trial.change(rng.standard_normal())
        trial.call(run)
    return trial.verdict()


def test_a_call_that_writes_nothing_is_found_though_a_later_one_writes():
    calls = []

    def run(a, b, out):
        calls.append(1)
        if len(calls) != 2:
            numpy_product(a, b, out)

    found = changed(run)
    assert "a call returned before it had written c[" in found.reason


def test_what_is_kept_of_one_product_of_a_batch_is_found():
    kept = {}

    def run(a, b, out):
        key = a.ctypes.data
        if len(kept) == 3 and key != min(kept):  # only the first product is computed again
            np.copyto(out, kept[key])
        else:
            numpy_product(a, b, out)
            kept[key] = out.copy()

    assert not changed(run, batch=3).ok


def test_an_empty_problem_has_nothing_to_change():
    rng = np.random.default_rng(5)
    trial = Trial(case(3, 4, 0), False, "float32", 0)
    trial.choose(rng)
    for _ in range(3):
        trial.change(1.0)
    trial.call(numpy_product)
    assert trial.verdict().ok


@pytest.mark.parametrize("batched", [False, True])
def test_a_wrong_shape_is_an_error_of_the_variant(batched):
    def run(a, b, out):
        out[...] = (a @ b)[..., :1, :]  # broadcasts silently

    found = tried(run, case(5, 6, 7, batch=2), batched=batched)
    assert not found.ok
    with pytest.raises(ValueError, match="broadcast"):
        tried(lambda a, b, out: np.copyto(out, (a @ b)[:, :-1]), case(5, 6, 7))


def test_what_a_variant_refuses_is_said_and_not_tried():
    found = verify.judge(
        lambda problem: numpy_product,
        lambda problem: "only whole tiles" if problem.k % 2 else "",
        Problem(50, 60, 70),
        batched=False,
        accuracy="float32",
        parallel=False,
    )
    assert found.ok
    assert found.refused == "1 x 1 x 1: only whole tiles"


def test_the_problem_s_own_neighbourhood_is_tried():
    tried_cases = list(cases.cases(Problem(512, 480, 1000, dtype="float16", layout="nt"), "cpu"))
    tried_shapes = {c.problem.shape for c in tried_cases}
    assert {"513 x 41 x 43", "41 x 481 x 703"} <= tried_shapes
    assert {(c.problem.dtype, c.problem.layout) for c in tried_cases} == {("float16", "nt")}
    strided = [c for c in tried_cases if c.view != "plain"]
    assert all(c.problem.strided for c in strided)
    assert {replace(c.problem, strided=False).strided for c in strided} == {False}
