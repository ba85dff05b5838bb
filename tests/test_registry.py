"""Files are read, not run; a broken one is named by its line, and the others work."""

import importlib
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from sandbox import registry
from sandbox.registry import BrokenFile, Registry, discover, load, read

ROOT = Path(__file__).parents[1]
HEAD = "from sandbox import variant\n\n\n"
GOOD = '{head}@variant("cpu"{options})\ndef {name}(a, b, out):\n    out[...] = a @ b\n'


def good(name, options=""):
    return GOOD.format(head=HEAD, name=name, options=options)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The built-in variants, copied to where more can join them."""
    shutil.copytree(ROOT / "sandbox", tmp_path / "sandbox", ignore=shutil.ignore_patterns("__py*"))
    monkeypatch.setattr(registry, "_PACKAGE", tmp_path / "sandbox")
    monkeypatch.setattr(registry.importlib.metadata, "entry_points", lambda group: [])
    return tmp_path / "sandbox"


def broken(tmp_path, text):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(BrokenFile) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert "object at 0x" not in message
    return message.removeprefix(str(path))


def test_a_syntax_error_is_named_by_its_line(tmp_path):
    assert broken(tmp_path, "x = 1\ndef f(:\n").startswith(":2: syntax error: ")
    assert broken(tmp_path, "def f():\nx\n").startswith(":2: syntax error: ")


def test_a_file_without_a_variant_is_told_what_to_do(tmp_path):
    for text in ("", "x = 1\n", HEAD + "@variant\ndef f(a, b, out): pass\n"):
        assert "@variant(" in broken(tmp_path, text)


@pytest.mark.parametrize(
    ("decorator", "word"),
    [
        ("variant()", "device"),
        ("variant('tpu')", "'tpu'"),
        ("variant(7)", "device"),
        ("variant(['cpu'])", "device"),
        ("variant('cpu', colour='red')", "'colour'"),
        ("variant('cpu', 'name')", "positional"),
        ("variant('cpu', name=NAME)", "NAME has to be a literal"),
        ("variant('cpu', **options)", "options has to be a literal"),
        ("variant('cpu', name=3)", "3 is no name"),
        ("variant('cpu', name='')", "'' is no name"),
        ("variant('cpu', name='a\\nb')", "is no name"),
        ("variant('cpu', name='all')", "'all'"),
        ("variant('cpu', after=3)", "after=3"),
        ("variant('cpu', parallel='yes')", "parallel='yes'"),
        ("variant('cpu', products='3')", "products='3'"),
        ("variant('cpu', products=0)", "products"),
        ("variant('cpu', expects='FFMA')", "expects='FFMA'"),
        ("variant('cpu', expects=(7,))", "name instructions"),
    ],
)
def test_a_wrong_declaration_is_named_by_its_line(tmp_path, decorator, word):
    message = broken(tmp_path, f"{HEAD}@{decorator}\ndef mine(a, b, out):\n    pass\n")
    assert message.startswith(":4: @variant: ")
    assert word in message


def test_what_a_file_may_declare(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        '"""Idea: one file. And more."""\n'
        "import sandbox\n"
        "import nothing_that_exists\n"
        '@sandbox.variant(device="cpu", name="[x] [/x]", after="tiled", products=3,\n'
        '    parallel=True, unit={"float32": "tf32"}, expects=("*MMA",),\n'
        "    supports=nothing_that_exists.supports)\n"
        "def first(a, b, out): pass\n"
        '@sandbox.variant("gpu")\n'
        "@nothing_that_exists.jit\n"
        "def second(a, b, out):\n"
        '    """Its own."""\n'
    )
    first, second = read(path)
    assert (first.name, first.device, first.after) == ("[x] [/x]", "cpu", "tiled")
    assert (first.products, first.parallel, first.summary) == (3, True, "one file")
    assert (first.expects, second.expects) == (("*MMA",), ())
    assert (first.unit_for("float32"), first.unit_for("float64")) == ("tf32", "fp64")
    assert (second.name, second.device, second.doc) == ("second", "gpu", "Its own.")


def test_the_listing_imports_nothing_heavy():
    code = (
        "import sys; from sandbox.compare import main; main(['--list']);"
        "print(*{'numba', 'torch', 'triton', 'llvmlite'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.strip() == ""
    assert all(v.name in done.stdout for v in discover().variants)


def test_a_broken_file_among_the_built_in_ones(package):
    before = [v.name for v in discover().variants]
    (package / "cpu" / "broken.py").write_text("x = (\n")
    (package / "gpu" / "empty.py").write_text("")
    found = discover()
    assert [v.name for v in found.variants] == before
    assert [str(b).startswith(str(package)) for b in found.broken] == [True, True]
    assert "broken.py:1: syntax error" in str(found.broken[0])


def test_a_name_twice_in_one_file(package):
    (package / "cpu" / "twice.py").write_text(good("one") + good("two", ', name="one"'))
    found = discover()
    assert not found.get("one")
    (message,) = map(str, found.broken)
    assert "the name 'one' is taken by" in message


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_name_twice_belongs_to_the_file_that_bears_it(package, device):
    thief = package / device / "aaa.py"
    thief.write_text(good("stolen", ', name="naive"').replace('"cpu"', f'"{device}"'))
    found = discover()
    assert found.get("naive").path.name == "naive.py"
    (message,) = map(str, found.broken)
    assert message.startswith(f"{thief}:5: the name 'naive' is taken by ")
    assert "naive.py" in message


def test_ladder_order(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        good("library", ", reference=True")
        + good("third", ', after="second"')
        + good("second", ', after="first"')
        + good("first")
        + good("lost", ', after="nowhere"')
        + good("egg", ', after="hen"')
        + good("hen", ', after="egg"')
    )
    found = Registry()
    found.add(read(path))
    names = [v.name for v in found.variants]
    assert names[-1] == "library"
    assert [n for n in names if n in ("first", "second", "third")] == ["first", "second", "third"]
    assert [v.name for v in found.ladder(found.get("third"))] == ["first", "second", "third"]
    assert [v.name for v in found.ladder(found.get("egg"))] == ["hen", "egg"]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Make entry points of another package's modules."""

    def install(*modules):
        points = [EntryPoint("any", module, registry.ENTRY_POINTS) for module in modules]
        monkeypatch.setattr(registry.importlib.metadata, "entry_points", lambda group: points)
        importlib.invalidate_caches()
        return discover()

    monkeypatch.syspath_prepend(str(tmp_path))
    return install


def test_entry_points(tmp_path, installed):
    other = tmp_path / "another_package"
    other.mkdir()
    (other / "__init__.py").write_text("")
    (other / "helper.py").write_text("ONE = 1\n")
    (other / "offered.py").write_text("from .helper import ONE\n" + good("offered"))
    found = installed("another_package.offered")
    assert not found.broken
    assert found.get("offered").path == other / "offered.py"
    assert load(found.get("offered")).function.__module__ == "another_package.offered"


@pytest.mark.parametrize("module", ["no_such_module", "no_such_package.inside", "sys", "raising.x"])
def test_a_broken_entry_point_is_named(tmp_path, installed, module):
    (tmp_path / "raising").mkdir()
    (tmp_path / "raising" / "__init__.py").write_text("raise SystemError('odd')")
    found = installed(module)
    assert found.get("numpy")
    (message,) = map(str, found.broken)
    assert module in message


def test_what_is_read_is_what_is_loaded(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(good("mine") + good("other", ', name="x y"'))
    for v in read(path):
        assert load(v).function.__name__ in ("mine", "other")
        assert load(v).supports(None) == ""


def test_a_function_that_has_another_name_when_it_runs(tmp_path):
    path = tmp_path / "mine.py"
    text = good("hidden").replace("\ndef", "\n@wrap\ndef")
    path.write_text("def wrap(f):\n    return lambda a, b, out: f(a, b, out)\n" + text)
    (v,) = read(path)
    with pytest.raises(LookupError, match='name="hidden"'):
        load(v)
