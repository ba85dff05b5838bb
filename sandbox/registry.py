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

    def __init__(self, path: Path, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")


@dataclass(frozen=True)
class Kernel:
    """A variant once imported: `run` (or what prepares it), and what it refuses and why."""

    function: Callable[..., Any]
    supports: Callable[[Problem], str]


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
    accuracy: str | None = None
    batched: bool = False
    prepare: bool = False

    @property
    def summary(self) -> str:
        """The first sentence of the docstring, without its label."""
        first = " ".join(self.doc.split("\n\n")[0].split()).removeprefix("Idea: ")
        return first.split(". ")[0].rstrip(".")

    def unit_for(self, dtype: str) -> str:
        """The arithmetic unit whose peak is this variant's ceiling."""
        unit = self.unit.get(dtype) if isinstance(self.unit, dict) else self.unit
        return unit or UNITS[dtype]


def variant(
    device: str,
    *,
    after: str | None = None,
    name: str | None = None,
    reference: bool = False,
    parallel: bool = False,
    unit: str | dict[str, str] | None = None,
    products: int = 1,
    accuracy: str | None = None,
    batched: bool = False,
    supports: Callable[[Problem], str] = lambda problem: "",
    prepare: bool = False,
) -> Callable[[F], F]:
    """Declare `run(a, b, out) -> None` a variant of matrix multiplication; returns it unchanged.

    after      the step of the ladder that this one improves on
    name       default the function's; unique across devices
    reference  a library to be measured against
    parallel   it uses as many threads as it is given
    unit       the arithmetic unit whose peak is the ceiling, or {dtype: unit}
    products   unit products that make one product (3 for a split), dividing the ceiling
    accuracy   the allowance it is held to, default the dtype's
    batched    run takes 3-D arrays (else the sandbox loops over the batch)
    supports   problem -> "" or why not, in words
    prepare    the function takes the problem and returns `run`; what it does is not timed

    All but `supports` are literals: files are read, not run, to list what is in them.
    """

    def declare(function: F) -> F:
        _declared[name or function.__name__] = Kernel(function, supports)
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
    for path in _files():
        try:
            readable.append(read(path))
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


def _files() -> Iterator[Path]:
    for device in DEVICES:
        yield from sorted(p for p in (_PACKAGE / device).glob("*.py") if p.name[0] != "_")
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        spec = importlib.util.find_spec(point.module)
        if spec and spec.origin:
            yield Path(spec.origin)


def read(path: Path) -> list[Variant]:
    """The variants that a file declares; raises BrokenFile where it declares none."""
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        raise BrokenFile(path, error.lineno or 1, f"syntax error: {error.msg}") from None
    except (OSError, ValueError) as error:
        raise BrokenFile(path, 1, getattr(error, "strerror", None) or str(error)) from None
    module_doc = ast.get_docstring(tree) or ""
    found = [
        _declaration(path, node, call, ast.get_docstring(node) or module_doc)
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for call in node.decorator_list
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] == "variant"
    ]
    if not found:
        raise BrokenFile(path, 1, 'no variant: put @variant("cpu") above a function run(a, b, out)')
    return found


def _declaration(path: Path, node: ast.FunctionDef, call: ast.Call, doc: str) -> Variant:
    try:
        device, *rest = [ast.literal_eval(x) for x in call.args]
        options = {
            word.arg or "**": ast.literal_eval(word.value)
            for word in call.keywords
            if word.arg != "supports"
        }
        bound = inspect.signature(variant).bind(device, *rest, **options).arguments
    except (ValueError, TypeError) as error:
        message = f"@variant: {error or 'its first argument is the device'}"
        raise BrokenFile(path, call.lineno, message) from None
    if bound.pop("device") not in DEVICES:
        raise BrokenFile(path, call.lineno, f"@variant: the device is one of {DEVICES}")
    bound.setdefault("name", node.name)
    return Variant(device=device, path=path, line=node.lineno, doc=doc, **bound)


def load(v: Variant) -> Kernel:
    """Import the variant's file, which runs it. For workers only."""
    _declared.clear()
    if v.path.is_relative_to(_PACKAGE):
        importlib.import_module(".".join(("sandbox", v.device, v.path.stem)))
    else:
        sys.path.insert(0, str(v.path.parent))
        spec = importlib.util.spec_from_file_location(f"variant_{v.path.stem}", v.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    return _declared[v.name]
