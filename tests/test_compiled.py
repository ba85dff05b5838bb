"""What the compilers made, on any machine: no test here needs a GPU."""

import json
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import processes
from sandbox.commands.compiled import main
from sandbox.compiled import cpu, gpu, inspect, missing
from sandbox.compiled.occupancy import ARCHITECTURES, occupancy
from sandbox.machine import detect
from sandbox.problem import ITEMSIZE, Problem
from sandbox.registry import discover

ROOT = Path(__file__).parents[1]
DOT = Path(__file__).parent / "variants" / "dot.py"
TARGETS = ("sm_80", "sm_90", "sm_100")
with_triton = pytest.mark.skipif(not find_spec("triton"), reason="Triton is not installed")


@pytest.fixture
def compiled(capsys, tmp_path):
    """The command: arguments -> exit code, JSON, standard output, standard error."""

    def run(*arguments):
        file = tmp_path / "code.json"
        file.unlink(missing_ok=True)
        try:
            code = main([*map(str, arguments), "--json", str(file)])
        except SystemExit as end:
            code = end.code
        return code, json.loads(file.read_text()) if file.exists() else None, *capsys.readouterr()

    return run


X86 = """\
\t.type kernel,@function
kernel:                                 # @kernel
\tpushq\t%rbx
\tmovq\t%rdi, 336(%rsp)                 # 8-byte Spill
\tvmovups\t%ymm3, 96(%rsp)                # 32-byte Spill
.LBB0_1:                                # =>This Inner Loop Header
\tvmovups\t96(%rsp), %ymm9                # 32-byte Reload
\tvfmadd231ps\t(%rax,%rcx,4), %ymm12, %ymm11 # ymm11 = (ymm12 * mem) + ymm11
\tvfmadd231pd\t(%rax){1to8}, %zmm14, %zmm30 {%k1}
\tvfnmadd213sd\t%xmm1, %xmm2, %xmm3
\tvgatherdps\t(%rax,%ymm1,4), %ymm2 {%k1}
\tvmovups\t%zmm0, (%rdx) {%k1}
\tleaq\t8(%rax), %rax
\tcmpq\t%rax, 8(%rsp)
\tjne\t.LBB0_1
\tretq
.Lfunc_end0:
_ZN7cpython6kernel:
\tvfmadd231ps\t%ymm1, %ymm2, %ymm3
.Lfunc_end1:
"""
ARM = """\
kernel:                                 // @kernel
\tstr\tq8, [sp, #16]                  // 16-byte Folded Spill
\tldp\tq0, q1, [x0], #32
\tfmla\tv2.4s, v0.4s, v1.s[0]
\tfmla\tz3.s, p0/m, z4.s, z5.s
\tld1w\t{ z0.s }, p0/z, [x0, z1.s, sxtw #2]
\tfmadd\ts0, s1, s2, s3
.Lfunc_end0:
"""
SASS = """\
  REG:115 STACK:0 SHARED:1024 LOCAL:0
        /*1320*/              @!P0 HGMMA.64x128x16.F32 R24, gdesc[UR8].tnspB, R24 ; /* 0x41e0 */
                                                                                    /* 0x41e0 */
        /*1330*/              @UPT UTMALDG.2D [UR8], [UR4] ;                        /* 0x41e0 */
       /*10340*/                   FFMA R1, R2, R3, R4 ;                            /* 0x41e0 */
       /*10350*/                   FFMA R1, R2, R3, R4 ;                            /* 0x41e0 */
       /*10360*/                   STL.64 [R1], R2 ;                                /* 0x41e0 */
       /*10370*/                   IADD3 R1, R2, R3, R4 ;                           /* 0x41e0 */
"""


def test_assembly_is_counted():
    names, registers, spills = cpu.counted(X86)
    assert names == {
        "vector fma 512": 1,
        "vector fma 256": 1,
        "scalar fma": 1,
        "loads": 3,
        "stores": 3,
        "gathers": 1,
        "vector spill stores": 1,
        "vector spill loads": 1,
        "spill stores": 1,
    }
    assert registers == 9
    assert spills == 8 + 32


def test_the_assembly_of_another_architecture():
    names, registers, spills = cpu.counted(ARM)
    assert names == {
        "vector fma 128": 1,
        "vector fma scalable": 1,
        "scalar fma": 1,
        "loads": 1,
        "stores": 1,
        "gathers": 1,
        "vector spill stores": 1,
    }
    assert (registers, spills) == (6, 16)


def test_sass_is_counted():
    assert gpu.counted(SASS) == {"FFMA": 2, "HGMMA": 1, "UTMALDG": 1, "STL": 1}


@pytest.mark.parametrize(
    ("capability", "warps", "registers", "shared", "expected"),
    [
        (90, 8, 32, 0, (1.0, "warps")),
        (90, 1, 32, 0, (0.5, "blocks")),
        (90, 8, 128, 0, (0.25, "registers")),
        (90, 8, 130, 0, (0.125, "registers")),  # 136 a thread are given out, 3 warps a quarter
        (90, 4, 32, 99 * 1024, (0.125, "shared memory")),
        (80, 8, 64, 80 * 1024, (0.25, "shared memory")),
        (86, 4, 40, 0, (1.0, "warps")),
    ],
)
def test_occupancy(capability, warps, registers, shared, expected):
    assert occupancy(ARCHITECTURES[capability], warps, registers, shared) == expected


@given(
    st.sampled_from(sorted(ARCHITECTURES)),
    st.sampled_from((1, 2, 4, 8, 16)),
    st.integers(16, 254),
    st.integers(0, 98 * 1024),
)
def test_what_needs_more_occupies_no_more(capability, warps, registers, shared):
    architecture = ARCHITECTURES[capability]
    now, _ = occupancy(architecture, warps, registers, shared)
    assert 0 <= now <= 1
    assert occupancy(architecture, warps, registers + 1, shared)[0] <= now
    assert occupancy(architecture, warps, registers, shared + 1)[0] <= now


def test_a_step_on_the_cpu(compiled):
    code, (found,), out, err = compiled("simd", "--n", 64)
    assert (code, err) == (0, "")
    assert found["variant"] == found["kernel"] == "simd"
    assert any(name.startswith("vector fma") for name in found["instructions"])
    assert found["registers"] > 8
    assert "simd has what it expects" in out


def test_a_file_s_variant_that_calls_what_is_compiled(compiled, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from numba import njit\nfrom sandbox import variant\n"
        "@njit(cache=True)\ndef inner(a, b, out):\n    out[:] = a[0, 0] + b[0, 0]\n"
        '@variant("cpu", prepare=True, expects=("gathers",))\ndef mine(problem):\n'
        "    print('noise')\n    return lambda a, b, out: inner(a, b, out)\n"
    )
    for _ in range(2):  # what was compiled before is compiled again
        code, (found,), out, _ = compiled(file, "--dtype", "float64")
        assert code == 1
        assert (found["variant"], found["kernel"]) == ("mine", "inner")
        assert "mine lacks what it expects: gathers." in out
        assert "noise" not in out


@with_triton
@pytest.mark.parametrize(
    ("target", "unit"), [("sm_80", "HMMA"), ("sm_90a", "HGMMA"), ("sm_100", "UTCHMMA")]
)
def test_a_file_s_variant_on_a_gpu_that_is_not_there(compiled, target, unit):
    code, found, out, err = compiled(DOT, "--target", target, "--dtype", "float16")
    assert code == 1  # crowded lacks something
    assert err == ""
    fill, multiply = (x for x in found if x["variant"] == "dot")
    assert (fill["kernel"], multiply["kernel"]) == ("fill", "multiply")
    assert fill["target"] == target.removesuffix("a")
    assert multiply["instructions"][unit] > 0
    assert multiply["instructions"]["LDGSTS"] > 0
    assert multiply["shared_bytes"] >= 2 * 64 * 64 * 2
    assert multiply["spills"] == 0
    assert multiply["grid"] == [8, 8, 1]
    assert 0 < multiply["occupancy"] < 1
    assert "dot has what it expects: *MMA, LDGSTS." in out
    assert "crowded lacks what it expects: *MMA, UTMALDG|LDGSTS." in out
    (crowded,) = (x for x in found if x["variant"] == "crowded")
    assert crowded["registers"] <= 32
    assert crowded["spills"] >= 4 * (4096 // 32 - 32)
    assert crowded["instructions"]["STL"] > 0
    assert "large is left out: does not fit: out of resource: shared memory" in " ".join(
        out.split()
    )
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "NAME"),
        (["nonesuch"], "no variant is called 'nonesuch'"),
        (["nonesuch.py"], "No such file"),
        (["simd", "--target", "sm_90"], "leave --target out"),
        (["simd", "--target", "sm_70"], "'sm_70' is none of sm_80"),
        (["simd", "--n", "0"], "'0' is not a whole number"),
        (["simd", "--n", "10000000"], "choose a smaller size"),
        (["simd", "--dtype", "bfloat16"], "simd: NumPy has no bfloat16"),
        (["simd", "--dtype", "float16"], "simd: Numba has no float16"),
        (["numpy"], "numpy: Numba compiles nothing of it"),
        pytest.param([DOT], "--target sm_90", marks=with_triton),
    ],
)
def test_a_mistake_takes_one_line(compiled, monkeypatch, arguments, words):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    code, found, out, err = compiled(*arguments)
    assert (code, found, out) == (2, None, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert words in err


UFUNC = """
import numba
from sandbox import variant


@numba.{how}
def kernel(x, y, out):
    {body}


@variant("cpu")
def mine(a, b, out):
    kernel(a, b, out)
"""
LAZY = 'guvectorize("(m,k),(k,n)->(m,n)")'
EAGER = 'guvectorize(["(float32[:,:], float32[:,:], float32[:,:])"], "(m,k),(k,n)->(m,n)")'


@pytest.mark.parametrize(
    ("how", "body"), [(LAZY, "out[:] = 0"), (EAGER, "out[:] = 0"), ("vectorize", "return x + y")]
)
def test_a_ufunc_is_called_what_it_is(compiled, tmp_path, how, body):
    (tmp_path / "mine.py").write_text(UFUNC.format(how=how, body=body))
    code, _, out, err = compiled(tmp_path / "mine.py", "--n", "8")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "mine: what Numba compiles of it are ufuncs (vectorize, guvectorize)" in err
    assert "only functions of njit are shown" in err


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise KeyError('mine')", "KeyError: 'mine'"),
        ("import os; os.abort()", "killed by SIGABRT"),
        ("raise SystemExit(3)", "exited with code 3"),
    ],
)
def test_a_broken_variant_is_shown_where_it_breaks(compiled, tmp_path, body, words):
    file = tmp_path / "mine.py"
    file.write_text(
        f'from sandbox import variant\n@variant("cpu")\ndef mine(a, b, out):\n    {body}\n'
    )
    code, found, _, err = compiled(file)
    assert (code, found) == (1, [])
    assert words in err
    assert ("mine.py" in err) == ("KeyError" in words)


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from sandbox.__main__ import main; sys.argv = ['sandbox', 'compiled', '-h']\n"
        "try: main()\n"
        "finally: print(*{'numba', 'torch', 'triton'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "--target" in done.stdout
    assert done.stderr.strip() == ""


BUILT_IN = [v for v in discover().variants if not v.reference]
ASKED = [(v, None, "float32") for v in BUILT_IN if v.device == "cpu" and v.expects]
if find_spec("triton"):
    ON_GPU = [v for v in BUILT_IN if v.device == "gpu"]
    ASKED += [(v, "sm_90", dtype) for v in ON_GPU for dtype in ITEMSIZE if dtype != "bfloat16"]
    ASKED += [(v, target, "float16") for v in ON_GPU for target in TARGETS if target != "sm_90"]


@cache
def answers() -> dict[tuple, Future]:
    """All at once, as many at a time as there are cores."""
    cores = detect.usable_cores()
    pool, context = ThreadPoolExecutor(cores), processes.context(cores)

    def ask(v, target, dtype):
        n = 4096 if v.device == "gpu" else 64  # on a GPU that takes no longer, and has full tiles
        problem = Problem(n, n, n, dtype=dtype)
        return processes.in_child(context, inspect, v, problem, target)

    return {(v.name, *rest): pool.submit(ask, v, *rest) for v, *rest in ASKED}


@pytest.mark.parametrize(
    ("v", "target", "dtype"),
    ASKED,
    ids=[f"{v.name}-{target}-{dtype}" for v, target, dtype in ASKED],
)
def test_every_variant_compiles_to_what_it_expects(v, target, dtype):
    found = answers()[v.name, target, dtype].result()
    if isinstance(found, str):  # it refuses, in words
        assert "\n" not in found
        assert target is None or (target, dtype) != ("sm_90", "float32")
    else:
        assert missing(v, found) == []
        assert all(code.registers for code in found)
        if target == "sm_90" and "*MMA" in v.expects and dtype != "float64":  # Hopper's own
            assert any({"HGMMA", "QGMMA"} & code.instructions.keys() for code in found)
