"""Vector code: run on this processor; for others it is compiled and its instructions are read."""

import re
from itertools import pairwise

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir
from numba import njit

from sandbox.cpu import _blocking, _emitter
from sandbox.cpu._emitter import HOST, VECTOR_BYTES, Target, target

FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()
X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
PROCESSORS = {
    "AVX-512": (X86, {"avx512f": True, "avx": True, "fma": True}, Target(512, 32, True)),
    "AVX2": (X86, {"avx": True, "avx2": True, "fma": True}, Target(256, 16, True)),
    "AVX": (X86, {"avx": True}, Target(256, 16, False)),
    "SSE2": (X86, {"sse2": True}, Target(128, 16, False)),
    "NEON": (ARM, {"neon": True}, Target(128, 32, True)),
}
INNER = {
    ("AVX-512", FLOAT): r"vfmadd\d+ps\s.*zmm",
    ("AVX-512", DOUBLE): r"vfmadd\d+pd\s.*zmm",
    ("AVX2", FLOAT): r"vfmadd\d+ps\s.*ymm",
    ("AVX2", DOUBLE): r"vfmadd\d+pd\s.*ymm",
    ("AVX", FLOAT): r"vaddps\s.*ymm",
    ("AVX", DOUBLE): r"vaddpd\s.*ymm",
    ("SSE2", FLOAT): r"\saddps\s.*xmm",
    ("SSE2", DOUBLE): r"\saddpd\s.*xmm",
    ("NEON", FLOAT): r"fmla\s+v\d+\.4s",
    ("NEON", DOUBLE): r"fmla\s+v\d+\.2d",
}


def assembly(triple, features, module):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    flags = ",".join(f"+{name}" for name in features)
    machine = llvm.Target.from_triple(triple).create_target_machine(features=flags, opt=3)
    module.triple = triple
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    options = llvm.create_pipeline_tuning_options(3)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    return machine.emit_assembly(parsed)


@pytest.mark.parametrize(("name", "scalar"), INNER, ids=lambda x: str(x))
def test_the_inner_loop_holds_the_tile_in_registers(name, scalar):
    triple, features, expected = PROCESSORS[name]
    chosen = target(features, arm=triple == ARM)
    assert chosen == expected
    lanes = chosen.bits // (32 if scalar is FLOAT else 64)
    for width in (2, 3):
        height, module = chosen.rows[width], ir.Module()
        function = _emitter.tile_function(module, scalar, lanes, height, width, chosen.fused)
        function.linkage = "external"
        code = assembly(triple, features, module).splitlines()
        # The unrolled loop: from the last label before the longest run of multiply-adds.
        sums = [bool(re.search(INNER[name, scalar], line)) for line in code]
        labels = [i for i, line in enumerate(code) if re.match(r"\.L\w+:", line)] + [len(code)]
        counts = {(a, b): sum(sums[a:b]) for a, b in pairwise(labels)}
        (start, end), most = max(counts.items(), key=lambda item: item[1])
        assert most == 2 * height * width  # two steps of k, every vector of the tile
        spill = r"mov[au]p[sd]\s+%[xyz]mm\d+, .*\(%r[sb]p\)|st[rp]\s+q\d+.*\[sp"
        assert sum(bool(re.search(spill, line)) for line in code[start:end]) <= 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_tile_is_the_product(dtype):
    @njit
    def run(height, width, last, a, b, out, add, panel, keep):
        k = a.shape[1]
        _emitter.tile(height, width, last, a, 0, 0, b, 0, 0, out, 0, 0, k, add, panel, 0, keep)

    lanes = VECTOR_BYTES // np.dtype(dtype).itemsize
    rng = np.random.default_rng(0)

    @settings(max_examples=60, derandomize=True, deadline=None, database=None)
    @given(st.sampled_from((2, 3)), st.data())
    def check(width, data):
        height = data.draw(st.integers(1, HOST.rows[width]))
        last = (width - 1) * lanes - data.draw(st.integers(0, lanes - 1))
        k = data.draw(st.integers(0, 13))
        add = data.draw(st.booleans())
        keep = 2 * height > HOST.rows[width] and data.draw(st.booleans())
        used = last + lanes
        a = rng.standard_normal((height, k)).astype(dtype)
        b = rng.standard_normal((k, used)).astype(dtype)
        out = rng.standard_normal((height + 1, used + 1)).astype(dtype)
        panel = np.zeros((k + 1, 3 * lanes), dtype)
        expected = out.copy()
        expected[:height, :used] = a @ b + (out[:height, :used] if add else 0)
        run(height, width, last, a, b, out, add, panel, keep)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
        assert (out[height] == expected[height]).all()  # nothing beyond the tile
        assert (out[:, used] == expected[:, used]).all()
        if keep:
            np.testing.assert_array_equal(panel[:k, :used], b)
        assert not panel[k].any()

    check()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_copies_whatever_lies_how(dtype):
    @settings(max_examples=60, derandomize=True, deadline=None, database=None)
    @given(st.integers(1, 40), st.integers(1, 40), st.sampled_from(("C", "F", "reversed")))
    def check(rows, columns, order):
        source = np.arange((rows + 2) * (columns + 3)).reshape(rows + 2, columns + 3).astype(dtype)
        source = {
            "C": source,
            "F": np.asfortranarray(source),
            "reversed": source[::-1, ::-1].copy()[::-1, ::-1],
        }[order]
        wanted = np.full((rows + 2, columns + 1), np.nan, dtype)
        wanted[1 : rows + 1, :columns] = source[2 : rows + 2, 3 : columns + 3]
        found = np.full_like(wanted, np.nan)
        _emitter.copy(found[1 : rows + 1, :columns], source[2 : rows + 2, 3 : columns + 3])
        np.testing.assert_array_equal(found, wanted)

    check()


def test_the_model_of_the_blocks(monkeypatch):
    """512 KiB of L2, of which the block of A takes half, twice as long as high."""
    monkeypatch.setattr(_blocking, "MR", 4)
    monkeypatch.setattr(_blocking, "NR", 24)
    found = _blocking.modelled({1: (8, 4 << 10), 2: (8, 64 << 10), 3: (16, 2 << 20)})
    assert found == (360, 176, 14 * (2 << 20) // 1440 // 24 * 24)
    assert 0.9 < 4 * 360 * 176 / (256 << 10) <= 1

    def crossing(kc, mc):
        return 2 / kc + 1 / mc

    assert all(crossing(kc, 65536 / kc) > 0.98 * crossing(360, 176) for kc in range(4, 4096, 4))


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(st.integers(4, 16), st.integers(4, 16), st.integers(8, 20), st.integers(0, 4), st.booleans())
def test_blocks_are_whole_tiles_whatever_the_caches(ways1, ways2, ways3, larger, l3):
    ways = {1: (ways1, 4 << 10), 2: (ways2, 16 << 10 << larger), 3: (ways3, 1 << 20 << larger)}
    if not l3:
        del ways[3]
    kc, mc, nc = _blocking.modelled(ways)
    assert kc % 4 == mc % (2 * _blocking.MR) == nc % _blocking.NR == 0
    assert min(kc, mc) > 0
    assert nc >= 64 * _blocking.NR  # no part of n is thinner than a vector


def test_what_a_search_found_is_kept_for_this_machine_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(_blocking, "store", lambda: tmp_path / "ceilings.json")
    assert _blocking.stored() is None
    found = _blocking.Blocking(384, 96, 9600)
    _blocking.keep(found)
    assert _blocking.stored() == found
    monkeypatch.setattr(_blocking.detect, "fingerprint", lambda: "another")
    assert _blocking.stored() is None
    _blocking.path().write_text("{")
    assert _blocking.stored() is None
