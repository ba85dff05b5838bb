"""Traced twins: hand counts, the same answer to the last bit, and nothing below the bound."""

import ctypes
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.problem import ITEMSIZE, Problem
from sandbox.registry import discover, load, read
from sandbox.roofline import pebble_bytes
from sandbox.traffic import near, trace
from sandbox.traffic.hooks import hooks
from sandbox.traffic.instrument import Untraceable, instrument
from sandbox.traffic.levels import Cache
from sandbox.verify import Case, Trial

HONEST = read(Path(__file__).parent / "variants" / "honest.py")[0]
TRACEABLE = {v.name: v for v in discover().variants if v.device == "cpu" and not v.reference}
TRACEABLE["honest"] = HONEST
CACHES = [Cache("L1", 4096, 8), Cache("L2", 16384, 8)]


@cache
def kernel(name):
    return load(TRACEABLE[name])


def trial_of(name, problem, view="plain"):
    v = TRACEABLE[name]
    return Trial(Case(problem, view=view), v.batched, v.accuracy_for(problem.dtype), 0)


def run_of(name, problem):
    return kernel(name).run(problem)


def accessed(name, *shape, dtype="float32"):
    """Words loaded and words stored by one call."""
    problem = Problem(*shape, dtype=dtype)
    sizes = [0, 0]

    def count(records, frames):
        size = records >> 48 & 0x7FFF
        sizes[0] += int(size[records >= 0].sum())
        sizes[1] += int(size[records < 0].sum())

    trace._traced(trial_of(name, problem), run_of(name, problem), [count])
    return tuple(size / ITEMSIZE[dtype] for size in sizes)


def ceil(a, b):
    return -(-a // b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(64, 64, 64), (5, 7, 9), (1, 1, 1), (16, 33, 20)])
def test_naive_loads_both_operands_each_time(shape, dtype):
    m, n, k = shape
    assert accessed("naive", m, n, k, dtype=dtype) == (2 * m * n * k, m * n)


@pytest.mark.parametrize("shape", [(64, 64, 64), (9, 16, 8), (10, 40, 12)])
def test_tiled_by_hand(shape):
    """m in groups of 3, k a multiple of 4, all within one tile of B."""
    m, n, k = shape
    groups, steps = ceil(m, 3), k // 4
    # the copy of B; 12 of A a step; 4 of the tile and 3 sums for each column; C from the panel
    loads = k * n + groups * steps * (12 + 7 * n) + m * n
    stores = k * n + groups * (3 * (256 + 16) + steps * 3 * n) + m * n
    assert accessed("tiled", m, n, k) == (loads, stores)


@pytest.mark.parametrize("shape", [(64, 64, 64), (9, 20, 32)])
def test_simd_by_hand_with_its_packing(shape):
    """Tiles of 4 x 3, all within one packed block of B."""
    m, n, k = shape
    tiles = ceil(m, 4) * ceil(n, 3)
    loads = k * n + m * k + tiles * 7 * k + m * n
    stores = k * n + m * k + tiles * 12 + m * n
    assert accessed("simd", m, n, k) == (loads, stores)


def test_the_body_of_prange_by_hand():
    m, n, k = 12, 64, 20
    loads, stores = accessed("honest", m, n, k)
    # C and B for each multiply-add, A once for each row of B; the range that the thread is handed
    assert (loads, stores) == (2 * m * n * k + m * k + 4, m * n * (k + 1))


def measured(name, shape):
    problem = Problem(*shape)
    trial, run = trial_of(name, problem), run_of(name, problem)
    sizes = [64, 200, 1 << 10, 3000, 1 << 12, 1 << 14, 1 << 16, 1 << 18]
    registers, curves = trace.curves(trial, run, 4, sizes, len(sizes))
    return problem.gemm, registers, sizes, curves


SIZES = st.integers(1, 40) | st.sampled_from([48, 64])


@pytest.mark.parametrize("name", TRACEABLE)
def test_no_point_lies_below_the_bound(name):
    @settings(max_examples=12, derandomize=True, deadline=None, database=None)
    @given(SIZES, SIZES, SIZES)
    def shapes(m, n, k):
        gemm, registers, sizes, curves = measured(name, (m, n, k))
        assert set(curves) == {(g, r) for g in ("word", "line") for r in ("lru", "opt")}
        for moved in curves.values():
            for size, moved_bytes in zip(sizes, moved, strict=True):
                assert moved_bytes >= pebble_bytes(gemm, size + registers)
        for kind in ("word", "line"):  # a larger cache never misses more with LRU by word
            assert all(
                x <= y for x, y in zip(curves[kind, "lru"][1:], curves[kind, "lru"], strict=False)
            )

    shapes()
    for shape in ((64, 64, 64), (1, 64, 1), (64, 1, 64)):
        gemm, registers, sizes, curves = measured(name, shape)
        for moved in curves.values():
            assert all(
                q >= pebble_bytes(gemm, s + registers) for q, s in zip(moved, sizes, strict=True)
            )


@pytest.mark.parametrize("layout", ["nt", "tn", "tt"])
@pytest.mark.parametrize("name", ["naive", "tiled"])
def test_other_layouts(name, layout):
    problem = Problem(20, 24, 28, layout=layout)
    near_bytes, moved = trace.through(trial_of(name, problem), run_of(name, problem), CACHES)
    assert near_bytes > 0
    assert min(moved) >= 4 * (20 * 28 + 28 * 24 + 20 * 24)


def test_the_same_call_moves_the_same_wherever_its_arrays_lie():
    problem = Problem(40, 40, 40)
    found, kept = [], []
    for words in (1, 997, 5000):
        kept.append(np.empty(words, np.float32))  # what comes after lies elsewhere
        found.append(trace.through(trial_of("tiled", problem), run_of("tiled", problem), CACHES))
    (_, first), *others = found  # where in a page an array begins is the allocator's choice
    for _, moved in others:
        assert moved == pytest.approx(first, rel=0.05)


def test_a_batch_is_traced_product_by_product():
    problem = Problem(8, 8, 8, batch=3)
    _, moved = trace.through(trial_of("naive", problem), run_of("naive", problem), CACHES)
    assert moved[0] == 3 * 4 * (2 * 8**3 + 8**2)


# What cannot be traced says why.

HEAD = "import numpy as np\nfrom numba import njit\nfrom sandbox import variant\n\n\n"
REFUSED = {
    "plain": (
        '@variant("cpu")\ndef f(a, b, out):\n    out[...] = a @ b\n',
        "no function that Numba",
    ),
    "library": (
        '@variant("cpu")\n@njit\ndef f(a, b, out):\n    np.dot(a, b, out)\n',
        "it calls numba_xx(?:gemm|gemv|dot), whose accesses cannot be seen",
    ),
    "copies": (
        "@njit\ndef g(a, b, out):\n    for i in range(a.shape[0]):\n"
        "        for j in range(b.shape[1]):\n            out[i, j] = 0\n"
        "            for p in range(b.shape[0]):\n                out[i, j] += a[i, p] * b[p, j]\n"
        '\n\n@variant("cpu")\ndef f(a, b, out):\n    g(a.copy(), b.copy(), out)\n',
        "code that Numba did not compile",
    ),
    "wrong": (
        '@variant("cpu")\n@njit\ndef f(a, b, out):\n    out[:, :] = a[0, 0] + b[0, 0]\n',
        "it is wrong: ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_traced_says_why(tmp_path, name):
    text, reason = REFUSED[name]
    path = tmp_path / f"{name}.py"
    path.write_text(f'"""Idea: none."""\n{HEAD}{text}')
    (v,) = read(path)
    problem = Problem(48, 48, 48)
    trial = Trial(Case(problem), False, "float32", 0)
    with pytest.raises(Untraceable, match=reason):
        trace.curves(trial, load(v).function, 4, [4096], 0)


def test_python_around_compiled_functions_is_traced_through(tmp_path):
    path = tmp_path / "around.py"
    text = REFUSED["copies"][0].replace("a.copy(), b.copy(), out", "a, out=out, b=b")
    path.write_text(f'"""Idea: none."""\n{HEAD}{text}')
    (v,) = read(path)
    problem = Problem(8, 8, 8)
    trial = Trial(Case(problem), False, "float32", 0)
    _, moved = trace.through(trial, load(v).function, CACHES)
    assert moved[0] >= 4 * 2 * 8**3


# The rewriting of LLVM text.

ENDS = "<4 x i1> <i1 1, i1 0, i1 0, i1 1>"
SECOND = "<4 x i1> <i1 0, i1 1, i1 0, i1 0>"
BOTH = "<2 x i1> <i1 1, i1 1>, <2 x float> zeroinitializer"

TEXT = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, <4 x i1>, <4 x float>)
declare void @llvm.masked.store.v4f32.p0(<4 x float>, ptr, <4 x i1>)
declare <2 x float> @llvm.masked.gather.v2f32.v2p0(<2 x ptr>, <2 x i1>, <2 x float>)
define void @f(ptr noalias readonly %a, ptr %b) memory(argmem: readwrite) {{
  call void @llvm.memcpy.p0.p0.i64(ptr align 4 %b, ptr align 4 %a, i64 100, i1 false)
  call void @llvm.memset.p0.i64(ptr %b, i8 0, i64 8, i1 false)
  %z = fadd <4 x float> zeroinitializer, zeroinitializer
  %m = call <4 x float> @llvm.masked.load.v4f32.p0(ptr align 4 %a, {ENDS}, <4 x float> %z)
  call void @llvm.masked.store.v4f32.p0(<4 x float> %m, ptr align 4 %b, {SECOND})
  %p = getelementptr i8, ptr %a, i64 40
  %one = insertelement <2 x ptr> poison, ptr %a, i64 0
  %two = insertelement <2 x ptr> %one, ptr %p, i64 1
  %g = call <2 x float> @llvm.masked.gather.v2f32.v2p0(<2 x ptr> %two, {BOTH})
  %v = load <2 x double>, ptr %a, align 8, !tbaa !0
  store <2 x float> %g, ptr %b, align 4
  %wide.load = load float, ptr %p, align 4
  %pointer = load ptr, ptr %a, align 8
  %before = atomicrmw add ptr %p, i64 0 monotonic, align 8
  ret void
}}
!0 = !{{!0}}
"""


def run_text(text):
    buffer, cursor = np.zeros(64, np.uint64), np.zeros(1, np.int64)
    flush = ctypes.CFUNCTYPE(None)(lambda: pytest.fail("64 records are enough"))
    where = ctypes.cast(flush, ctypes.c_void_p).value
    hooked = instrument(text) + hooks(cursor.ctypes.data, buffer.ctypes.data, where, 64)
    module = llvm.parse_assembly(hooked)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        engine.get_function_address("f")
    )
    function(a.ctypes.data, b.ctypes.data)
    bases = {"a": a.ctypes.data, "b": b.ctypes.data}
    found = []
    for r in buffer[: cursor[0]]:
        address, size, store = int(r) & (1 << 48) - 1, int(r) >> 48 & 0x7FFF, bool(int(r) >> 63)
        name = next(x for x, base in bases.items() if base <= address < base + 256)
        found.append(("store" if store else "load", name, address - bases[name], size))
    return found, a, b


def test_every_kind_of_access_is_recorded():
    found, a, b = run_text(TEXT)
    assert found == [
        ("load", "a", 0, 64), ("store", "b", 0, 64), ("load", "a", 64, 36), ("store", "b", 64, 36),
        ("store", "b", 0, 8),
        ("load", "a", 0, 4), ("load", "a", 12, 4),
        ("store", "b", 4, 4),
        ("load", "a", 0, 4), ("load", "a", 40, 4),
        ("load", "a", 0, 16), ("store", "b", 0, 8), ("load", "a", 40, 4),
        ("load", "a", 40, 8), ("store", "a", 40, 8),
    ]  # fmt: skip
    assert b[0] == a[0]
    assert b[1] == a[10]
    assert (b[2:25] == a[2:25]).all()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("%x = cmpxchg ptr %a, i32 1, i32 2 seq_cst seq_cst", "cmpxchg"),
        ("%x = load atomic i32, ptr %a seq_cst, align 4", "load atomic"),
        ("call void %b(ptr %a)", "calls what is not known"),
        ("call void @other(ptr %a)", "calls other, whose accesses cannot be seen"),
        ('call void asm "nop", "~{memory}"()', "calls what is not known"),
        ("%x = load x86_mmx, ptr %a", "x86_mmx"),
    ],
)
def test_what_cannot_be_recorded_is_refused(line, reason):
    text = (
        f"declare void @other(ptr)\ndefine void @f(ptr %a, ptr %b) {{\n  {line}\n  ret void\n}}\n"
    )
    with pytest.raises(Untraceable, match=reason):
        instrument(text)


def test_frames_and_live_values():
    x86 = "f:\n\tpushq\t%rbx\n\tsubq\t$632, %rsp\n\taddq\t$632, %rsp\n.Lfunc_end0:\n"
    arm = "f:\n\tstp\tx29, x30, [sp, #-96]!\n\tsub\tsp, sp, #2, lsl #12\n.Lfunc_end0:\n"
    assert near.frame_bytes(x86, "f") == 640
    assert near.frame_bytes(arm, "f") == 96 + 8192
    text = (
        "define <4 x float> @f(ptr %a, i1 %c) {\nentry:\n  %x = load <4 x float>, ptr %a\n"
        "  br label %loop\nloop:\n  %s = phi <4 x float> [ %x, %entry ], [ %t, %loop ]\n"
        "  %y = load <4 x float>, ptr %a\n  %z = load <4 x float>, ptr %a\n"
        "  %u = fmul <4 x float> %y, %z\n  %t = fadd <4 x float> %s, %u\n"
        "  br i1 %c, label %loop, label %end\nend:\n  %w = fadd <4 x float> %t, %x\n"
        "  ret <4 x float> %w\n}\n"
    )
    module = llvm.parse_assembly(text)
    assert near.live_bytes(module.get_function("f")) == 16 * 4  # x, s, y and z
