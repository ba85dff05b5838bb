"""What Numba made: instructions of its assembly counted, on x86-64 and AArch64."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from typing import Any

from sandbox import registry, worker
from sandbox.compiled import Code, Nothing
from sandbox.problem import Problem
from sandbox.registry import Variant

_FUNCTION = re.compile(r"^(\S+):.*?\n(.*?)^\.Lfunc_end", re.M | re.S)
_NOT_THE_KERNEL = ("_ZN7cpython", "cfunc.", "NRT_")  # Numba's own, in every library
_INSTRUCTION = re.compile(r"^\t(?!\.)(.*?)(?:\s*(?:# |//)(.*))?$", re.M)
_MASK = re.compile(r"\s*\{.*?\}")
_VECTOR = re.compile(r"%[xyz]mm(\d+)|\b[vz](\d+)\.")
_SLOT = re.compile(r"-?\d*\(%r[sb]p\)|\[sp.*?\]")
_SPILL = re.compile(r"(\d+)-byte (?:Folded )?(Spill|Reload)")
_WIDTHS = {"%zmm": "512", "%ymm": "256", "%xmm": "128", " z": "scalable", " v": "128"}
_NO_ACCESS = "lea|prefetch|nop|call|j|v?p?gather|v?p?scatter"
# x86 in AT&T order: memory that is read comes before a comma, memory that is written comes last.
_NAMES = {
    "vector fma": re.compile(r"vfn?m(?:add|sub|addsub|subadd)\d+p|fml[as]\s+[vz]"),
    "scalar fma": re.compile(r"vfn?m(?:add|sub)\d+s|fn?m(?:add|sub)\s"),
    "gathers": re.compile(r"vp?gather|ld\w+\b.*\[.*\bz\d"),
    "scatters": re.compile(r"vp?scatter|st\w+\b.*\[.*\bz\d"),
    "loads": re.compile(rf"(?!{_NO_ACCESS})\w+\s.*\),|ld\w+\b[^z]*\["),
    "stores": re.compile(rf"(?!{_NO_ACCESS}|v?u?cmp|test)\w+\s.*\)$|st\w+\b[^z]*\["),
}
_ORDER = [f"vector fma {width}" for width in dict.fromkeys(_WIDTHS.values())]
_ORDER += [*_NAMES, "vector spill stores", "vector spill loads", "spill stores", "spill loads"]


def counted(assembly: str) -> tuple[dict[str, int], int, int]:
    """Of a library's assembly, with LLVM's comments: the instructions that matter by name, the
    vector registers that occur, the bytes of stack that registers are spilled to."""
    count: Counter[str] = Counter()
    registers: set[str] = set()
    slots: dict[tuple[str, str], int] = {}
    for function, body in _FUNCTION.findall(assembly):
        if function.startswith(_NOT_THE_KERNEL):
            continue
        for code, comment in _INSTRUCTION.findall(body):
            code = _MASK.sub("", code.replace("\t", " "))
            registers.update(x or y for x, y in _VECTOR.findall(code))
            for name, pattern in _NAMES.items():
                if pattern.match(code):
                    width = next((w for r, w in _WIDTHS.items() if r in code), "")
                    count[f"{name} {width}" if name == "vector fma" else name] += 1
            if spill := _SPILL.search(comment):
                kind = "spill stores" if spill[2] == "Spill" else "spill loads"
                count[kind if int(spill[1]) < 16 else f"vector {kind}"] += 1
                if slot := _SLOT.search(code):
                    slots[function, slot[0]] = int(spill[1])
    ordered = {name: count[name] for name in _ORDER if count[name]}
    return ordered, len(registers), sum(slots.values())


def codes(v: Variant, problem: Problem) -> list[Code]:
    """Everything that Numba compiles while the variant is loaded and runs once, as a worker does.

    Raises Nothing where it refuses the problem, or Numba compiles nothing.
    """
    import llvmlite.binding as llvm
    import numba
    from numba.core import caching, config, event
    from numba.np.ufunc.ufuncbuilder import UFuncDispatcher

    from sandbox.cases import Case
    from sandbox.verify import Trial

    found: dict[Any, None] = {}  # (dispatcher, types) of what was called, not of what that calls

    ufuncs: list[Any] = []  # for them there is no event

    class Listen(event.Listener):  # type: ignore[misc]
        depth = 0

        def on_start(self, event: Any) -> None:
            self.depth += 1

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            if not self.depth:
                found[event.data["dispatcher"], event.data["args"]] = None

    compile_ufunc = UFuncDispatcher.compile

    def noted(self: Any, *args: Any, **options: Any) -> Any:
        ufuncs.append(self)
        return compile_ufunc(self, *args, **options)

    UFuncDispatcher.compile = noted
    worker.use_widest_vectors()
    caching.FunctionCache.load_overload = lambda *_: None  # what is found there has no assembly
    event.register("numba:compile", Listen())
    with tempfile.TemporaryDirectory() as config.CACHE_DIR:
        kernel = registry.load(v)
        try:
            trial = Trial(Case(problem), v.batched, v.accuracy_for(problem.dtype), seed=0)
        except TypeError as error:
            raise Nothing(str(error)) from None
        if why := kernel.refuses(problem):
            raise Nothing(why)
        trial.call(kernel.run(problem))
    if not found and ufuncs:
        raise Nothing(
            "what Numba compiles of it are ufuncs (vectorize, guvectorize), loops that NumPy "
            "calls: only functions of njit are shown"
        )
    if not found:
        raise Nothing("Numba compiles nothing of it")
    version = ".".join(map(str, llvm.llvm_version_info))
    made = []
    for dispatcher, types in found:
        library = dispatcher.overloads[types].library
        library._codegen._tm.set_asm_verbosity(True)  # spills are told in comments alone
        instructions, registers, spills = counted(library.get_asm_str())
        made.append(
            Code(
                variant=v.name,
                kernel=dispatcher.py_func.__name__,
                target=llvm.get_host_cpu_name(),
                compiler=f"Numba {numba.__version__}, LLVM {version}",
                registers=registers,
                spills=spills,
                shared_bytes=0,
                instructions=instructions,
            )
        )
    return made
