"""Which variants there are. Files are read with `ast`; only `load`, in a worker, imports them."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sandbox.problem import ITEMSIZE, Problem

DEVICES = ("cpu", "gpu")
ENTRY_POINTS = "sandbox.variants"
_PACKAGE = Path(__file__).parent
UNITS = dict(zip(ITEMSIZE, ("fp64", "fp32", "fp16", "bf16", "fp8"), strict=True))
F = TypeVar("F", bound=Callable[..., Any])


class BrokenFile(Exception):
    """A file that gives no variant: its path, the line where it goes wrong, and how."""

    def __init__(self, path: Path | str, line: int | None, message: str) -> None:
        super().__init__(f"{path}{f':{line}' if line else ''}: {message}")


@dataclass(frozen=True)
class Kernel:
    """A variant once imported: `run` (or what prepares it), and what it refuses and why."""

    function: Callable[..., Any]
    supports: Callable[[Problem], str]
    prepare: bool = False

    def run(self, problem: Problem) -> Callable[..., Any]:
        """`run(a, b, out)` for a problem."""
        run: Callable[..., Any] = self.function(problem) if self.prepare else self.function
        return run

    def refuses(self, problem: Problem) -> str:
        """Why it does not take a problem, or nothing."""
        compiled_by_numba = type(self.function).__module__.startswith("numba.")
        if compiled_by_numba and problem.dtype == "float16":
            return "Numba has no float16 on a CPU"
        return self.supports(problem)


_declared: dict[str, Kernel] = {}


@dataclass(frozen=True)
class Variant:
    """What a variant's file says of it, known before anything is imported."""

    name: str
    device: str
    path: Path
    line: int
    doc: str
    after: str | None = None
    reference: bool = False
    parallel: bool = False
    unit: str | dict[str, str] | None = None
    products: int = 1
    accuracy: str | dict[str, str] | None = None
    batched: bool = False
    expects: tuple[str, ...] = ()
    prepare: bool = False
    module: str | None = None  # as what it is imported; None for a file that is in no package

    @property
    def built_in(self) -> bool:
        """It comes with the sandbox."""
        return (self.module or "").startswith("sandbox.")

    @property
    def trusted(self) -> bool:
        """A library whose awkward shapes are tried by the tests, not in every run."""
        return self.built_in and self.reference

    @property
    def summary(self) -> str:
        """The first sentence of the docstring, without its label."""
        first = " ".join(self.doc.split("\n\n")[0].split()).removeprefix("Idea: ")
        return first.split(". ")[0].rstrip(".")

    def unit_for(self, dtype: str) -> str:
        """The arithmetic unit whose peak is this variant's ceiling."""
        unit = self.unit.get(dtype) if isinstance(self.unit, dict) else self.unit
        return unit or UNITS[dtype]

    def accuracy_for(self, dtype: str) -> str:
        """The accuracy whose allowance this variant is held to."""
        accuracy = self.accuracy.get(dtype) if isinstance(self.accuracy, dict) else self.accuracy
        return accuracy or dtype


def variant(
    device: str,
    *,
    after: str | None = None,
    name: str | None = None,
    reference: bool = False,
    parallel: bool = False,
    unit: str | dict[str, str] | None = None,
    products: int = 1,
    accuracy: str | dict[str, str] | None = None,
    batched: bool = False,
    supports: Callable[[Problem], str] = lambda problem: "",
    expects: tuple[str, ...] = (),
    prepare: bool = False,
) -> Callable[[F], F]:
    """Declare `run(a, b, out) -> None` a variant of matrix multiplication; returns it unchanged.

    after      the step of the ladder that this one improves on
    name       default the function's; unique across devices
    reference  a library to be measured against
    parallel   it uses as many threads as it is given
    unit       the arithmetic unit whose peak is the ceiling, or {dtype: unit}
    products   unit products that make one product (3 for a split), dividing the ceiling
    accuracy   the allowance it is held to, default the dtype's, or {dtype: accuracy}
    batched    run takes 3-D arrays (else the sandbox loops over the batch)
    supports   problem -> "" or why not, in words
    expects    instructions that must stand in its compiled code, each at least once, as
               `python -m sandbox compiled` names them; "*" stands for any letters and "|" between
               names for either: ("vector fma*",), ("*MMA", "UTMALDG|LDGSTS")
    prepare    the function takes the problem and returns `run`; what it does is not timed

    All but `supports` are literals: files are read, not run, to list what is in them.
    """

    def declare(function: F) -> F:
        _declared[name or function.__name__] = Kernel(function, supports, prepare)
        return function

    return declare


@dataclass
class Registry:
    """The variants in ladder order, the references last, and the files that gave none."""

    variants: list[Variant] = field(default_factory=list)
    broken: list[BrokenFile] = field(default_factory=list)

    def add(self, found: list[Variant]) -> None:
        """What one file declares joins; raises BrokenFile where a name is taken."""
        names = {v.name: v for v in self.variants}
        for new in found:
            if old := names.get(new.name):
                where = f"{old.path}:{old.line}"
                message = f"the name {new.name!r} is taken by {where}: choose another"
                raise BrokenFile(new.path, new.line, message)
            names[new.name] = new
        self.variants += found
        self.variants = sorted(self.variants, key=self._place)

    def get(self, name: str | None) -> Variant | None:
        """The variant of that name."""
        return next((v for v in self.variants if v.name == name), None)

    def ladder(self, last: Variant) -> list[Variant]:
        """The steps up to `last`, first things first."""
        steps = [last]
        while (before := self.get(steps[0].after)) and before not in steps:
            steps.insert(0, before)
        return steps

    def _place(self, v: Variant) -> tuple[object, ...]:
        return DEVICES.index(v.device), v.reference, len(self.ladder(v)), v.name


def discover() -> Registry:
    """The built-in variants and those that installed packages offer as entry points."""
    registry = Registry()
    readable: list[list[Variant]] = []
    for module in _modules():
        try:
            readable.append(read(_origin(module), module))
        except BrokenFile as error:
            registry.broken.append(error)
    # A file that bears its variant's name owns the name, whatever else claims it.
    readable.sort(key=lambda found: found[0].path.stem not in {v.name for v in found})
    for found in readable:
        try:
            registry.add(found)
        except BrokenFile as error:
            registry.broken.append(error)
    return registry


def _modules() -> Iterator[str]:
    for device in DEVICES:
        files = (p for p in (_PACKAGE / device).glob("*.py") if p.name[0] != "_")
        yield from sorted(f"sandbox.{device}.{p.stem}" for p in files)
    yield from sorted({p.module for p in importlib.metadata.entry_points(group=ENTRY_POINTS)})


def _origin(module: str) -> Path:
    """The file of a module; raises BrokenFile where there is none."""
    package, *rest = module.split(".")
    if package == "sandbox":
        return _PACKAGE.joinpath(*rest).with_suffix(".py")
    try:
        spec = importlib.util.find_spec(module)  # imports the packages around it
    except Exception as error:
        raise BrokenFile(
            f"entry point {module}", None, f"{type(error).__name__}: {error}"
        ) from None
    if not (spec and spec.has_location and spec.origin):
        raise BrokenFile(f"entry point {module}", None, "there is no such file")
    return Path(spec.origin)


def read(path: Path, module: str | None = None) -> list[Variant]:
    """The variants that a file declares; raises BrokenFile where it declares none."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        raise BrokenFile(path, error.lineno or 1, f"syntax error: {error.msg}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BrokenFile(path, None, getattr(error, "strerror", None) or str(error)) from None
    module_doc = ast.get_docstring(tree) or ""
    found = [
        _declaration(path, module, node, call, ast.get_docstring(node) or module_doc)
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for call in node.decorator_list
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] == "variant"
    ]
    if not found:
        message = 'no variant: put @variant("cpu") above a function run(a, b, out)'
        raise BrokenFile(path, None, message)
    return found


def _declaration(
    path: Path, module: str | None, node: ast.FunctionDef, call: ast.Call, doc: str
) -> Variant:
    try:
        arguments = [_literal(x) for x in call.args]
        options = {
            word.arg or "**": _literal(word.value)
            for word in call.keywords
            if word.arg != "supports"
        }
        bound = inspect.signature(variant).bind(*arguments, **options).arguments
        bound.setdefault("name", node.name)
        _check(bound)
    except (ValueError, TypeError) as error:
        raise BrokenFile(path, call.lineno, f"@variant: {error}") from None
    return Variant(path=path, line=node.lineno, doc=doc, module=module, **bound)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        message = f"{ast.unparse(node)} has to be a literal: the file is read, not run"
        raise ValueError(message) from None


def _check(options: dict[str, Any]) -> None:
    """Raises ValueError for a value that is none for its option."""
    if options["device"] not in DEVICES:
        raise ValueError(f"the device is one of {DEVICES}, not {options['device']!r}")
    name = options["name"]
    if not (isinstance(name, str) and name.strip() == name != "" and name.isprintable()):
        raise ValueError(f"{name!r} is no name")
    if name in ("all", *DEVICES):
        raise ValueError(f"the name {name!r} stands for a group: choose another")
    kinds = {bool: (bool,), int: (int,), tuple: (tuple,), type(None): (str, dict, type(None))}
    defaults = inspect.signature(variant).parameters
    for option in options.keys() - {"device", "name"}:
        if not isinstance(options[option], kinds[type(defaults[option].default)]):
            raise ValueError(f"{option}={options[option]!r} is of the wrong type")
    if not all(isinstance(name, str) for name in options.get("expects", ())):
        raise ValueError(f"expects={options['expects']!r} has to name instructions")
    if options.get("products", 1) < 1:
        raise ValueError("products is 1 or more")


def load(v: Variant) -> Kernel:
    """Import the variant's file, which runs it. For workers only.

    Raises LookupError where that declares no variant of the name that was read.
    """
    if v.module:
        importlib.import_module(v.module)
    else:
        sys.path.insert(0, str(v.path.parent))
        spec = importlib.util.spec_from_file_location(f"variant_{v.path.stem}", v.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    if v.name not in _declared:
        raise LookupError(
            f'the function has another name when it runs: give @variant name="{v.name}"'
        )
    return _declared[v.name]
