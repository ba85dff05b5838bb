"""Ceilings: of the catalogue, measured, stored; and what this process may use of its machine."""

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.machine import Gpu, assemble, catalogue, detect, here
from sandbox.roofline import Level

ROOT = Path(__file__).parents[1]
FOUND = {
    "peak": {"fp32": [1e11, 0.01], "fp64": [5e10, 0.02]},
    "bandwidth": {"read": [2e10, 0.1], "copy": [3e10, 0.2], "triad": [2.5e10, 0.1]},
    "t0_s": {"call": [1e-7, 0.05]},
    "busy": False,
}
LAYER = {"t0_s": {"workqueue": [5e-6, 0.1]}, "busy": False}
LEVELS = {"levels": {"L1": [9e10, 0.01], "L2": [5e10, 0.02], "L3": [7e10, 0.03]}, "busy": False}
DEVICE = Gpu("GPU-1", "NVIDIA H200", "9.0", 132, 60 << 20, 228 << 10, 256 << 10, 256 << 10, 1 << 37)
ON_GPU = {
    "device": asdict(DEVICE),
    "peak": {"fp32": [6e13, 0.01], "fp16": [9e14, 0.02]},
    "bandwidth": {
        "DRAM": {"read": [4.5e12, 0.01], "copy": [3.7e12, 0.01]},
        "L2": {"read": [1e13, 0.05]},
        "shared": {"read": [3.2e13, 0.01]},
    },
    "t0_s": {"launch": [1e-5, 0.2], "event": [2e-5, 0.1], "graph": [5e-7, 0.01]},
    "clock_hz": {"fp32": 1.98e9},
    "busy": False,
}


def test_the_catalogue_has_the_figures_of_the_article():
    m = catalogue.named("gh200")
    assert m.cores == 72
    cpu, cuda, tensor = (
        m.unit("cpu", "fp32", 72),
        m.unit("gpu", "fp32", 1),
        m.unit("gpu", "tf32", 1),
    )
    assert (cpu.peak_flops, cpu.bandwidth, cpu.article_bytes) == (7.1e12, 512e9, 117e6)
    assert (cuda.peak_flops, cuda.bandwidth, cuda.article_bytes) == (67e12, 4.0e12, 50e6)
    assert (tensor.peak_flops, tensor.bandwidth) == (494e12, 4.0e12)
    for unit in m.units:
        assert unit.source.peak == unit.source.bandwidth == "datasheet"
        names = [level.name for level in unit.levels]
        assert names == (["DRAM", "L3", "L2", "L1"] if unit is cpu else ["DRAM", "L2", "shared"])
        assert unit.levels[0].fast_bytes > unit.article_bytes
        assert unit.levels[1].memories * unit.levels[1].fast_bytes <= unit.levels[0].fast_bytes


def test_a_machine_that_is_not_in_the_catalogue():
    with pytest.raises(ValueError, match="gh200"):
        catalogue.named("../gh200")


def test_fewer_threads_have_their_share_of_the_peak():
    m = catalogue.named("gh200")
    assert m.unit("cpu", "fp32", 18).peak_flops == pytest.approx(7.1e12 / 4)
    assert m.unit("cpu", "fp32", 18).threads == 18
    assert m.unit("cpu", "fp32", 18).bandwidth == 512e9
    assert m.unit("cpu", "fp32", 144).peak_flops == 7.1e12


def test_what_is_unknown_has_no_ceiling():
    m = catalogue.named("gh200")
    assert m.unit("cpu", "fp64", 1) is None
    assert m.unit("gpu", "int8", 1) is None


# What this process may use.


@pytest.fixture
def cpus(tmp_path, monkeypatch):
    """A machine of two cores with two threads each that share all but the last-level cache."""
    for cpu in range(4):
        pair = "0-1" if cpu < 2 else "2-3"
        kinds = [(1, "Data", 48, pair), (1, "Instruction", 32, pair), (2, "Unified", 1024, pair)]
        kinds.append((3, "Unified", 32768, "0-3"))
        for index, (level, kind, size, shared) in enumerate(kinds):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            facts = {"level": level, "type": kind, "size": f"{size}K", "shared_cpu_list": shared}
            for name, fact in facts.items():
                (folder / name).write_text(f"{fact}\n")
    monkeypatch.setattr(detect, "_CPUS", tmp_path)

    def allow(*allowed):
        fake = type("Process", (), {"cpu_affinity": lambda self: list(allowed)})
        monkeypatch.setattr(detect.psutil, "Process", fake)

    return allow


def test_caches_that_are_shared_count_once(cpus):
    cpus(0, 1, 2, 3)
    kib = 1 << 10
    assert detect.caches() == {
        1: (48 * kib, 96 * kib),
        2: (1024 * kib, 2048 * kib),
        3: (32768 * kib, 32768 * kib),
    }


def test_only_caches_within_the_affinity_count(cpus):
    cpus(2)
    assert detect.caches()[1] == (48 << 10, 48 << 10)
    assert detect.caches()[2] == (1 << 20, 1 << 20)


def test_where_the_system_does_not_say_caches_are_assumed(cpus):
    cpus(99)
    assert sorted(detect.caches()) == [1, 2, 3]
    assert all(0 < one <= total for one, total in detect.caches().values())


def test_ways_lines_and_the_policy_of_its_data_sheet(cpus, tmp_path, monkeypatch):
    cpus(0, 1, 2, 3)
    for name, fact in (("ways_of_associativity", 16), ("coherency_line_size", 64)):
        for cpu in range(4):
            (tmp_path / f"cpu{cpu}" / "cache" / "index3" / name).write_text(f"{fact}\n")
    last = detect.hierarchy()[-1]
    assert (last.ways, last.line_bytes, last.instances) == (16, 64, 1)
    assert detect.hierarchy()[0].ways is None

    def passing_for(name):
        host = SimpleNamespace(name=name, features=())
        monkeypatch.setattr(detect.archspec.cpu, "host", lambda: host)
        return detect.microarchitecture()

    assert passing_for("zen5") == "zen5"  # 48 KiB and 1 MiB, as here
    assert [c.policy for c in detect.hierarchy()] == ["unknown", "unknown", "victim"]
    assert passing_for("zen3") == "unknown"  # it has others: this is no Zen 3
    assert last.policy == "unknown"
    assert passing_for("x86_64_v3") == "x86_64_v3"
    assert last.policy == "unknown"


@pytest.mark.parametrize(
    ("features", "isa", "registers"),
    [
        ({"sse2", "avx", "avx2", "avx512f", "amx_tile"}, "AVX-512", 32 * 64 + 8192),
        ({"sse2", "avx", "avx2", "avx512f"}, "AVX-512", 2048),
        ({"sse2", "avx", "avx2"}, "AVX2", 512),
        ({"fp", "asimd"}, "NEON", 512),
        ({"asimd", "sve"}, "SVE", 2048),
        ({"asimd", "sve", "sve2"}, "SVE2", 2048),
        (set(), "unknown", 512),
    ],
)
def test_vectors_on_x86_and_on_arm(monkeypatch, features, isa, registers):
    host = SimpleNamespace(name="any", features=features)
    monkeypatch.setattr(detect.archspec.cpu, "host", lambda: host)
    assert (detect.vector_isa(), detect.vector_registers_bytes()) == (isa, registers)


def test_a_processor_that_does_not_tell_its_name(monkeypatch):
    monkeypatch.setattr(detect.archspec.cpu, "brand_string", lambda: None)
    monkeypatch.setattr(detect.platform, "processor", lambda: "")
    monkeypatch.setattr(detect.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(detect, "microarchitecture", lambda: "neoverse_n1")
    assert detect.processor() == "aarch64, neoverse_n1"


def test_a_cache_folder_that_cannot_be_read_is_passed_over(cpus, tmp_path):
    cpus(0)
    (tmp_path / "cpu0" / "cache" / "index3" / "size").unlink()
    assert sorted(detect.caches()) == [1, 2]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity")
def test_cores_follow_the_affinity():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from sandbox.machine import detect; print(detect.usable_cores())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "1"


def test_cores_follow_the_quota(monkeypatch):
    context = pytest.importorskip("joblib.externals.loky.backend.context")
    if not hasattr(context, "_cpu_count_cgroup"):
        pytest.skip("joblib looks elsewhere")
    monkeypatch.setattr(context, "_cpu_count_cgroup", lambda count: 1)
    assert detect.usable_cores() == 1


def test_memory_follows_the_limit_of_the_group(tmp_path, monkeypatch):
    free = detect.available_bytes()
    monkeypatch.setattr(detect, "_CGROUP", tmp_path)
    assert detect.available_bytes() == pytest.approx(free, rel=0.5)
    (tmp_path / "memory.max").write_text("max\n")
    assert detect.available_bytes() == pytest.approx(free, rel=0.5)
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("2500\n")
    (tmp_path / "memory.stat").write_text("anon 1000\ninactive_file 700\n")
    assert detect.available_bytes() == 3000 - 2500 + 700


def test_facts_of_this_machine():
    assert 1 <= detect.usable_cores() <= (os.cpu_count() or 1)
    assert detect.installed_cores() >= 1
    assert detect.processor()
    assert detect.vector_registers_bytes() in (512, 2048, 10240)
    assert detect.fingerprint() == detect.fingerprint()


# The store.


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """What was measured, instead of measuring: thread counts, and names of the rest."""
    calls = []
    answers = {
        "_measure": lambda threads, size: {str(t): FOUND for t in threads},
        "_measure_levels": lambda threads: {str(t): LEVELS for t in threads},
        "_measure_layer": lambda layer, threads: {"2": LAYER} if layer == "workqueue" else {},
        "_measure_gpu": lambda known: known.get("GPU-1") or ON_GPU,
    }

    def in_child(context, function, *arguments):
        name = function.__name__
        calls.extend(arguments[0] if name == "_measure" else [name.removeprefix("_measure_")])
        return json.loads(json.dumps(answers[name](*arguments)))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(here.processes, "in_child", in_child)
    monkeypatch.setattr(here.processes, "context", lambda cores: None)
    monkeypatch.setattr(here.detect, "usable_cores", lambda: 2)
    return calls


def test_ceilings_are_measured_once(measured):
    first, second = here.this_machine([1, 2]), here.this_machine([1, 2])
    assert measured == [1, 2]
    assert first == second
    unit = first.unit("cpu", "fp32", 2)
    assert (unit.peak_flops, unit.spread, unit.bandwidth, unit.t0_s) == (1e11, 0.01, 3e10, 1e-7)
    assert unit.source.peak == "measured"
    assert unit.source.bandwidth == "measured (copy)"
    assert first.unit("cpu", "fp64", 1).peak_flops == 5e10
    assert first.note.startswith("measured ")
    assert json.loads(here.store().read_text())["fingerprint"] == detect.fingerprint()


def test_of_two_visits_the_better_counts_and_the_difference_is_doubt():
    first = {"levels": {"L1": (100.0, 0.02), "L2": (50.0, 0.01)}}
    again = {"levels": {"L1": (80.0, 0.05), "L2": (50.0, 0.03)}}
    assert here._both(first, again) == {"L1": (100.0, pytest.approx(0.2)), "L2": (50.0, 0.03)}


def test_another_number_of_threads_is_measured_when_it_is_asked_for(measured):
    here.this_machine([1, 2])
    m = here.this_machine([3])
    assert measured == [1, 2, 3]
    assert m.unit("cpu", "fp32", 3).peak_flops == 1e11


def test_ceilings_are_measured_again_on_demand(measured):
    here.this_machine([1, 2])
    said = []
    here.this_machine([1, 2], remeasure=True, say=said.append)
    assert measured == [1, 2, 1, 2]
    assert said == ["measuring the ceilings of this machine"]


def test_another_machine_is_measured_again(measured, monkeypatch):
    here.this_machine([1, 2])
    monkeypatch.setattr(here.detect, "fingerprint", lambda: "another")
    here.this_machine([1, 2])
    assert measured == [1, 2, 1, 2]
    assert json.loads(here.store().read_text())["fingerprint"] == "another"


GARBAGE = [
    "", "{", "[]", "null", "3", "\0", '{"fingerprint": "F"}',
    '{"fingerprint": "F", "date": "d", "threads": []}',
    '{"fingerprint": "F", "date": "d", "threads": {"1": {}}}',
    '{"fingerprint": "F", "date": "d", "threads": {"x": {}}}',
    '{"fingerprint": "F", "date": "d", "threads": {"1": {"peak": 3, "bandwidth": {}}}}',
]  # fmt: skip


@pytest.mark.parametrize("text", GARBAGE)
def test_a_store_that_is_not_ours_is_written_anew(measured, text):
    here.store().parent.mkdir(parents=True)
    here.store().write_text(text.replace("F", detect.fingerprint()))
    assert here.this_machine([1, 2]).unit("cpu", "fp32", 1).peak_flops == 1e11
    assert here.this_machine([1, 2]).unit("cpu", "fp32", 1).peak_flops == 1e11
    assert measured == [1, 2]


def test_a_fixed_cost_without_its_spread_is_measured_again(measured):
    here.this_machine([1, 2])
    stored = json.loads(here.store().read_text())
    stored["threads"]["1"]["t0_s"] = {"call": 1e-7}
    here.store().write_text(json.dumps(stored))
    assert here.this_machine([1, 2]).unit("cpu", "fp32", 1).fixed_cost_spread == {"call": 0.05}
    assert measured == [1, 2, 1, 2]


def test_a_store_of_another_encoding(measured):
    here.store().parent.mkdir(parents=True)
    here.store().write_bytes(b"\xff\xfe")
    assert here.this_machine([1, 2]).units
    assert measured == [1, 2]


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_no_place_to_store_anything(measured, monkeypatch, variable):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv(variable, "/dev/null/nowhere")
    for _ in range(2):
        assert here.this_machine([1, 2]).unit("cpu", "fp32", 2).peak_flops == 1e11
    assert measured == [1, 2] * 2


def test_a_store_that_cannot_be_replaced_is_measured_once_a_run(measured):
    here.store().mkdir(parents=True)
    assert here.this_machine([1, 2]).units
    assert measured == [1, 2]


def test_a_measurement_that_fails_stores_nothing(measured, monkeypatch):
    def dies(*args):
        raise RuntimeError("_measure ended with code -9")

    monkeypatch.setattr(here.processes, "in_child", dies)
    with pytest.raises(RuntimeError, match="ended"):
        here.this_machine([1])
    assert not here.store().exists()


def test_the_command_measures_again_on_demand(measured, monkeypatch, compare):
    from sandbox import runner

    def run(plan, say):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", run)
    here.this_machine([1, 2])
    assert compare("numpy") == (130, "", "")
    assert measured == [1, 2]
    assert compare("numpy", "--remeasure") == (130, "", "")
    assert measured == [1, 2, 1, 2]


def test_levels_are_measured_when_they_are_asked_for_and_once(measured):
    assert all(x.bandwidth is None for x in here.this_machine().unit("cpu", "fp32", 1).levels[1:])
    first, second = here.this_machine(levels=True), here.this_machine(levels=True)
    assert measured == [1, 2, "levels", "layer", "layer", "layer", "levels"]
    assert first == second
    unit = first.unit("cpu", "fp32", 2)
    assert {x.name: x.bandwidth for x in unit.levels if x.name in ("L1", "DRAM")} == {
        "L1": 9e10,
        "DRAM": 3e10,
    }
    assert unit.fixed_cost_s == {"call": 1e-7, "workqueue": 5e-6}
    assert unit.fixed_cost_spread == {"call": 0.05, "workqueue": 0.1}


def test_a_gpu_is_measured_once_and_its_processor_apart(measured):
    assert here.this_machine().gpu is None
    first, second = here.this_machine(gpu=True), here.this_machine(gpu=True)
    assert measured == [1, 2, "gpu", "gpu"]
    assert first == second
    assert first.gpu == DEVICE
    unit = first.unit("gpu", "fp32", 1)
    assert (unit.peak_flops, unit.bandwidth, unit.clock_hz) == (6e13, 4.5e12, 1.98e9)
    assert (unit.source.peak, unit.source.bandwidth) == ("measured", "measured (read)")
    assert [(x.name, x.memories) for x in unit.levels] == [
        ("DRAM", 1),
        ("L2", 132),
        ("shared", 132),
    ]
    assert unit.fast_bytes == (60 << 20) + 132 * (512 << 10)
    assert unit.t0_s == 1e-5
    stored = json.loads(here.store().read_text())["gpus"]["GPU-1"]
    assert stored["date"] in first.note
    here.this_machine(remeasure=True)  # of the processor: the GPU stays
    assert json.loads(here.store().read_text())["gpus"]["GPU-1"] == stored


@pytest.mark.parametrize("answer", [None, RuntimeError("_measure_gpu ended with code -6")])
def test_without_a_gpu_that_works_there_are_no_units_of_one(measured, monkeypatch, answer):
    here.this_machine()

    def in_child(context, function, known):
        if answer:
            raise answer
        return answer

    monkeypatch.setattr(here.processes, "in_child", in_child)
    said = []
    machine = here.this_machine(gpu=True, say=said.append)
    assert machine.gpu is None
    assert {u.device for u in machine.units} == {"cpu"}
    assert ("code -6" in said[-1]) == bool(answer)


@pytest.mark.parametrize("which", ["FOUND", "LEVELS", "LAYER", "ON_GPU"])
def test_what_a_busy_machine_reached_is_said_and_not_kept(measured, monkeypatch, which):
    monkeypatch.setitem(globals()[which], "busy", True)
    machine = here.this_machine(levels=True, gpu=True)
    assert "busy" in machine.note
    assert "run again" in machine.note
    assert machine.units
    kept = json.loads(here.store().read_text()) if here.store().exists() else {"threads": {}}
    on_gpu = which == "ON_GPU"
    assert ("GPU-1" if on_gpu else "1") not in kept["gpus" if on_gpu else "threads"]
    monkeypatch.setitem(globals()[which], "busy", False)
    assert "busy" not in here.this_machine(levels=True, gpu=True).note


@pytest.mark.parametrize("columns", ["80", "60"])
def test_the_command_shows_every_level_of_this_machine(measured, monkeypatch, capsys, columns):
    from sandbox.commands.roofline import main

    monkeypatch.setenv("COLUMNS", columns)
    sheets = catalogue.microarchitecture("zen4")
    monkeypatch.setattr(detect, "data_sheet", lambda: sheets)
    assert main(["--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert max(map(len, err.splitlines())) <= int(columns)
    for word in ("L1", "L2", "L3", "DRAM", "shared", "workqueue", "graph", "implied", "reached"):
        assert word in err
    units = {u["unit"]: u for u in json.loads(out)["units"]}
    dram, l3, l2, l1 = units["fp32, 2 threads"]["levels"]
    assert (dram["bandwidth"], l1["bandwidth"], l1["memories"]) == (3e10, 9e10, 2)
    assert l1["ridge"] == pytest.approx(1e11 / 9e10)
    assert l2["bandwidth"] == l3["bandwidth"] == 7e10
    assert "at least" in l2["source"]
    assert l3["bytes"] <= l2["bytes"] <= l1["bytes"]
    assert l1["ceiling_flops"] <= 1e11
    assert units["fp32, 2 threads"]["moved_into"].keys() == {"L1", "L2"}
    modes = ON_GPU["t0_s"].items()
    assert units["fp16"]["fixed_cost_s"] == {mode: seconds for mode, (seconds, _) in modes}
    assert units["fp16"]["fixed_cost_spread"] == {mode: spread for mode, (_, spread) in modes}
    assert units["fp16"]["spread"] == 0.02
    assert units["fp16"]["bound_by_level"] == "DRAM"


RATES = st.one_of(st.none(), st.floats(1, 1e13))


@given(st.lists(RATES, min_size=1, max_size=4))
def test_no_level_is_slower_than_one_behind_it(rates):
    levels = [Level(f"{i}", 1, 1, rate) for i, rate in enumerate(rates)]
    lifted = assemble.lifted(levels)
    known = [x.bandwidth for x in lifted if x.bandwidth]
    assert known == sorted(known)
    for before, after in zip(levels, lifted, strict=True):
        assert (before.bandwidth is None) == (after.bandwidth is None)
        assert ("at least" in after.source) == (before.bandwidth != after.bandwidth)


SIZES = st.tuples(*(st.integers(12, 28).map(lambda x: 1 << x) for _ in range(3)))


@given(SIZES, st.integers(1, 64), st.integers(1, 64), st.data())
def test_arrays_lie_in_one_cache_and_in_none_nearer(sizes, cores, threads, data):
    instances = [cores, cores, data.draw(st.integers(1, cores))]
    caches = tuple(
        detect.Cache(i, size, size * n, n)
        for i, (size, n) in enumerate(zip(sizes, instances, strict=True), 1)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detect, "hierarchy", lambda: caches)
        patch.setattr(detect, "usable_cores", lambda: cores)
        found = detect.array_sizes(threads)
        levels = assemble._levels(threads, Level("DRAM", 0), {})
    for c in caches:
        if size := found.get(f"L{c.level}"):
            assert size & (size - 1) == 0
            nearer = caches[c.level - 2].one_bytes if c.level > 1 else 0
            assert 2 * nearer <= size <= c.one_bytes
            assert size * min(threads, max(1, cores // c.instances)) <= c.one_bytes
    assert [x.name for x in levels] == ["DRAM", "L3", "L2", "L1"]
    assert [x.memories for x in levels] == [1, threads, threads, threads]
    assert levels[0].fast_bytes >= sum(c.total_bytes for c in caches)


def test_fewer_threads_have_their_share_of_private_memories():
    whole = catalogue.named("gh200").unit("gpu", "fp32", 1)
    grace = catalogue.named("gh200").unit("cpu", "fp32", 72)
    grace = replace(grace, levels=(*grace.levels[:3], replace(grace.levels[3], bandwidth=7.2e13)))
    assert grace.narrowed(18).levels[3].bandwidth == pytest.approx(7.2e13 / 4)
    assert [x.memories for x in grace.narrowed(18).levels] == [1, 18, 18, 18]
    assert grace.narrowed(18).fast_bytes == grace.fast_bytes
    assert whole.narrowed(1) == whole


# The kernels that reach the ceilings.


@pytest.mark.parametrize(("dtype", "letter", "bits"), [("fp32", "s", 32), ("fp64", "d", 64)])
def test_the_peak_is_that_of_the_widest_multiply_add(dtype, letter, bits):
    from sandbox.machine import kernels

    kernel, flop = kernels.fma_kernel(dtype)
    lanes = kernels.vector_bits() // bits
    chains, rest = divmod(flop, 2 * lanes * 4)
    assert rest == 0
    # Each chain converges to y / (1 - x) with x = 1/2, y = 3/4.
    assert kernel(1000, 0.5) == pytest.approx(1.5 * chains)
    (assembly,) = kernel.inspect_asm().values()
    register = {128: "xmm", 256: "ymm", 512: "zmm"}[kernels.vector_bits()]
    patterns = {  # x86 with multiply-add, aarch64, x86 without
        "vfmadd": rf"vfmadd\d+p{letter}\s.*{register}\d+",
        "fmla": r"fmla(\.\d|\s+v)",
        "": rf"mulp{letter}\s",
    }
    pattern = next(p for sign, p in patterns.items() if sign in assembly)
    assert len(re.findall(pattern, assembly)) >= chains * 4


def test_what_is_measured_has_the_form_that_is_stored(monkeypatch):
    from sandbox.machine import calibrate

    monkeypatch.setattr(calibrate, "_ROUNDS", 2)
    monkeypatch.setattr(calibrate, "_ROUND_S", 1e-4)
    for threads in (1, 2):
        if threads > 1:  # beside other work a fork and join can take milliseconds
            monkeypatch.setattr(calibrate, "fixed_cost", lambda threads: LAYER)
        found = json.loads(json.dumps(calibrate.measure(threads, 1 << 16)))
        assert set(found) == set(FOUND)
        assert all(set(found[key]) == set(FOUND[key]) for key in ("peak", "bandwidth"))
        for rate, spread in [*found["peak"].values(), *found["bandwidth"].values()]:
            assert rate > 0
            assert 0 <= spread < 1
        for seconds, spread in found["t0_s"].values():
            assert seconds > 0
            assert spread > 0
