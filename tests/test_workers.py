"""Interrupts, crashes and output of workers; every test runs the command as a user does."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox import processes, worker
from sandbox.machine import detect
from sandbox.registry import read

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "sandbox.compare", "--machine", "gh200"]
QUICK = ["--n", "48", "--rounds", "2", "--threads", "1"]


def compare(*arguments):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


def variant(folder, body, before=""):
    path = folder / "mine.py"
    lines = "".join(f"    {line}\n" for line in body)
    head = f"import ctypes\nimport numpy as np\nfrom sandbox import variant\n{before}\n"
    path.write_text(f'"""Mine."""\n{head}@variant("cpu")\ndef mine(a, b, out):\n{lines}')
    return path


def rows(text):
    return {(r["variant"], r["threads"]): r for r in json.loads(text)}


def wait_for(path, process):
    limit = time.monotonic() + 200
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < limit
        time.sleep(0.02)


# Runs a module as `python -m` does, with a folder ahead of all others.
AHEAD = """
import runpy, sys
sys.path[:1] = [sys.argv[1], ""]
module = sys.argv[2]
del sys.argv[1:3]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""

# A variant that shows by a file how far the run is, and in the end never returns.
SIGNS = [
    "global calls",
    "calls += 1",
    "np.matmul(a, b, out=out)",
    "if calls > LIMIT:",
    "    open(SIGN, 'w').close()",
    "    __import__('time').sleep(1000)",
]


@pytest.mark.skipif(os.name == "nt", reason="a signal for POSIX")
@pytest.mark.parametrize("stage", ["verification", "timing"])
def test_an_interrupt_ends_at_once_and_saves(tmp_path, stage):
    sign, saved = tmp_path / "sign", tmp_path / "rows.json"
    limit = 5 if stage == "verification" else 300
    path = variant(tmp_path, SIGNS, f"SIGN, LIMIT, calls = {str(sign)!r}, {limit}, 0\n")
    process = subprocess.Popen(
        [*COMMAND, path, *QUICK, "--rounds", "100000", "--json", saved, "--timeout", "250"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        wait_for(sign, process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    found = rows(saved.read_text())
    assert found["mine", 1]["skipped"] == "interrupted"
    assert found["mine", 1]["timing"] is None
    assert all(not r["verdict"] or r["verdict"]["ok"] for r in found.values())


@pytest.mark.parametrize(
    "command", [["sandbox.compare"], ["sandbox.roofline"], ["sandbox", "pebble", "naive"]]
)
@pytest.mark.parametrize("module", ["rich", "psutil"])
def test_an_interrupt_while_modules_are_imported(tmp_path, command, module):
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt")
    done = subprocess.run(
        [sys.executable, "-c", AHEAD, tmp_path, *command], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_children_see_no_interrupt_of_the_whole_group():
    context = processes.context(detect.usable_cores())
    masked = processes.in_child(context, signal.pthread_sigmask, signal.SIG_BLOCK, [])
    assert signal.SIGINT in masked
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_crash_while_timing_leaves_the_other_rows(tmp_path):
    body = ["global calls", "calls += 1", "np.matmul(a, b, out=out)"]
    path = variant(tmp_path, [*body, "calls > 300 and ctypes.string_at(0)"], "calls = 0\n")
    done = compare(path, *QUICK, "--json", "-")
    assert done.returncode == 1
    found = rows(done.stdout)
    assert found["mine", 1]["verdict"]["reason"] == "killed by SIGSEGV during timing"
    assert found["numpy", 1]["timing"]["median_s"] > 0


def test_what_a_variant_prints_does_not_mix_with_the_rows(tmp_path):
    body = [
        "print('chatter')",
        "ctypes.CDLL(None).puts(b'chatter')",
        "np.matmul(a, b, out=out)",
    ]
    path = variant(tmp_path, body, "print('chatter')\n")
    done = compare(path, *QUICK, "--json", "-")
    assert done.returncode == 0, done.stderr[-2000:]
    assert rows(done.stdout)["mine", 1]["timing"]["median_s"] > 0


def test_memory_is_watched_while_timing(tmp_path):
    body = [
        "np.matmul(a, b, out=out)",
        "calls.append(1)",
        "while len(calls) > 300:",
        "    hoard.append(np.ones(1 << 21))",
    ]
    path = variant(tmp_path, body, "calls, hoard = [], []\n")
    done = compare(path, *QUICK, "--json", "-")
    assert done.returncode == 1
    reason = rows(done.stdout)["mine", 1]["verdict"]["reason"]
    assert reason.startswith("took more than 1.")
    assert reason.endswith("GiB of memory during timing")


def test_thread_settings_of_the_environment_do_not_reach_the_rows(monkeypatch):
    for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        monkeypatch.setenv(f"{name}_NUM_THREADS", "1")
    done = compare("numpy", *QUICK, "--json", "-")
    assert done.returncode == 0, done.stderr[-2000:]
    assert all(r["timing"] for r in json.loads(done.stdout))


@pytest.mark.parametrize("library", ["numba", "triton"])
def test_a_missing_compiler_is_not_the_variant_s_fault(monkeypatch, tmp_path, library):
    path = tmp_path / f"uses_{library}.py"
    path.write_text(f"""import {library}
from sandbox import variant

@variant("cpu")
def uses_{library}(a, b, out): ...
""")
    (v,) = read(path)
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    with pytest.raises(worker.Absent, match=library):
        worker.load_or_say(v)


def test_a_missing_library_of_its_own_is(tmp_path):
    path = tmp_path / "lonely.py"
    path.write_text("import no_such_thing, triton\nfrom sandbox import variant\n"
                    '@variant("cpu")\ndef lonely(a, b, out): ...\n')  # fmt: skip
    (v,) = read(path)
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        worker.load_or_say(v)
