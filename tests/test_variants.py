"""Every CPU variant that is discovered, against torch.matmul through the sandbox's own oracle."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import registry
from sandbox.problem import Problem

REGISTRY = registry.discover()
CPU = {v.name: v for v in REGISTRY.variants if v.device == "cpu"}
PARALLEL = [name for name, v in CPU.items() if v.parallel]
LIES = [(view, "float32") for view in ("plain", "fortran", "sliced", "padded", "reversed")]
LIES += [("plain", "float64"), ("sliced", "float64")]
OFF_TILE = ((129, 257, 65), (300, 1, 300), (1, 300, 17), (65, 64, 129), (2, 3, 500))


@cache
def kernel(name):
    return registry.load(CPU[name])


def verdict(name, problem, view="plain", seed=0):
    """What the oracle says, or None where the variant refuses in words."""
    from sandbox.cases import Case
    from sandbox.verify import Trial

    v = CPU[name]
    if why := kernel(name).refuses(problem):
        assert "\n" not in why
        return None
    run = kernel(name).run(problem)
    trial = Trial(Case(problem, view=view), v.batched, v.accuracy_for(problem.dtype), seed)
    trial.call(run)
    return trial.verdict()


def right(name, problem, view="plain", seed=0):
    """Right, or refused; says which."""
    found = verdict(name, problem, view, seed)
    assert found is None or found.ok, found.reason
    return found is not None


def use_threads(threads):
    import numba
    import torch
    from threadpoolctl import threadpool_limits

    numba.set_num_threads(threads)
    torch.set_num_threads(threads)
    threadpool_limits(threads)


@pytest.fixture(autouse=True)
def _one_thread():
    use_threads(1)
    yield
    use_threads(1)


@pytest.mark.parametrize(("view", "dtype"), LIES)
@pytest.mark.parametrize("name", CPU)
def test_any_size(name, view, dtype):
    strided = view != "plain"
    # Numba compiles for each way in which arrays may lie; one row or none lies in two ways at once.
    size = st.integers(2 if strided else 0, 9) | st.integers(10, 70)

    @settings(max_examples=30, derandomize=True, deadline=None, database=None)
    @given(size, size, size, st.integers(0, 2**32 - 1))
    def sizes(m, n, k, seed):
        right(name, Problem(m, n, k, dtype=dtype, strided=strided), view, seed)

    sizes()
    for shape in OFF_TILE[:1] if strided else OFF_TILE:
        right(name, Problem(*shape, dtype=dtype, strided=strided), view)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("name", CPU)
def test_layouts(name, layout):
    for shape in ((33, 33, 33), (45, 67, 90), (129, 65, 31)):
        assert right(name, Problem(*shape, layout=layout))


@pytest.mark.parametrize("name", CPU)
def test_batches(name):
    for batch in (2, 5):
        assert right(name, Problem(17, 19, 23, batch))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PARALLEL)
def test_threads(name, threads):
    use_threads(threads)
    for seed, shape in enumerate([*OFF_TILE, (1, 1, 1), (7, 300, 40), (300, 7, 40), (150,) * 3]):
        for _ in range(3):
            assert right(name, Problem(*shape), seed=seed)


@pytest.mark.parametrize("name", CPU)
def test_half_precision_is_right_or_refused_in_words(name):
    right(name, Problem(45, 67, 90, dtype="float16"))


def test_no_built_in_file_is_broken():
    assert not REGISTRY.broken


@pytest.mark.parametrize("v", REGISTRY.variants, ids=lambda v: v.name)
def test_three_paragraphs_say_what_it_is(v):
    labels = [paragraph.split()[0] for paragraph in v.doc.split("\n\n")]
    assert labels == ["Idea:", "Traffic:", "Watch:"]
    assert v.summary


@pytest.mark.parametrize("v", REGISTRY.variants, ids=lambda v: v.name)
def test_the_ladder_leads_down_to_a_first_step(v):
    seen = []
    while v.after is not None:
        assert v.name not in seen, "a cycle"
        seen.append(v.name)
        below = REGISTRY.get(v.after)
        assert below, f"{v.name} is after {v.after}, which does not exist"
        assert below.device == v.device
        v = below
