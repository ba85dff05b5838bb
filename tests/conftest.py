"""What several test files share."""

import os
import sys
from types import ModuleType

import pytest

# A race, and more than one thread, need two threads to show, whatever the number of cores.
os.environ["NUMBA_NUM_THREADS"] = str(max(2, os.cpu_count() or 1))


def pytest_addoption(parser):
    parser.addoption("--gpu", action="store_true", help="run what needs a CUDA device, too")


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a CUDA device, and --gpu")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if "gpu" in item.keywords and not config.getoption("--gpu"):
            item.add_marker(pytest.mark.skip(reason="needs --gpu"))


@pytest.fixture(scope="session", autouse=True)
def _light_main():
    """Workers import the caller's main module again: here that would be pytest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", ModuleType("__main__"))
        yield


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch):
    """80 columns and no wishes, whatever the terminal that the tests run in."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def compare(capsys):
    """The command in this process: arguments -> exit code, standard output, standard error."""
    from sandbox.compare import main

    def run(*arguments):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run
