"""LLVM text of a compiled kernel -> the same with every load and store of matrix data recorded.

A record is 64 bits: the address, the size in bytes above bit 48, and bit 63 for a store. What does
not hold matrix data is not recorded: pointers (Numba's own bookkeeping: the return slot, the header
of an array, what a thread is handed), and the stack of a function that forks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

ADDRESS_BITS, STORE = 48, 1 << 63

_NAME = r'(?:"[^"]*"|[-\w.$]+)'
_VALUE = rf"(?:[%@]{_NAME}|null|poison|undef|\w+ (?:\w+ )*\((?:[^()]|\([^()]*\))*\))"
_TYPE = r"(?:\{[^{}]*\}|<[^<>]*>|\[[^\[\]]*\]|[\w.]+)"
_END = r"(?:, align \d+)?$"
_LOAD = re.compile(rf"= load (?:volatile )?({_TYPE}), ptr ({_VALUE}){_END}")
_STORE = re.compile(rf"^ *store (?:volatile )?({_TYPE}) .*?, ptr ({_VALUE}){_END}")
_ATOMIC = re.compile(rf"= atomicrmw (?:volatile )?\w+ ptr ({_VALUE}), ({_TYPE}) ")
_CALL = re.compile(rf"\b(?:call|invoke) .*?([%@]{_NAME}|asm\b[^(]*)\((.*)\)")
_METADATA = re.compile(r",? !\S+ !\d+")
_MEMORY = re.compile(rf"^ *(?:%{_NAME} = )?(?:load|store|atomicrmw|cmpxchg|va_arg) ")
# True of the kernel, not of its twin, which also writes records and calls what empties them.
_PROMISES = re.compile(
    r" (?:noalias|readnone|readonly|writeonly|nosync|nofree|norecurse|memory\([^)]*\)"
    r"|captures\((?:[^()]|\([^()]*\))*\))(?=[ ,)])"
)
# Numba's run time. It moves no matrix data, or calls functions of the module that do.
_RUN_TIME = re.compile(
    r"NRT_|Py|numba_(?:attempt_nocopy_reshape|parallel_for|gil_|do_raise|unpickle|runtime_build_excinfo)|do_scheduling_"
    r"|(?:get|set)_(?:num_threads|parallel_chunksize|sched_size)|(?:de)?allocate_sched|printf|puts"
    r"|llvm\.(?:assume|lifetime|prefetch|invariant|experimental\.noalias|va_)"
)
_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8, "fp128": 16, "x86_fp80": 16}


class Untraceable(Exception):
    """Why the accesses of a kernel cannot be recorded, in words."""


def size(type_name: str) -> int:
    """Bytes of a value in memory; raises Untraceable for a type that is no number's.

    >>> size("<8 x float>"), size("i1")
    (32, 1)
    """
    if vector := re.fullmatch(r"[<\[](\d+) x (.*)[>\]]", type_name):
        lanes, element = int(vector[1]), vector[2]
        return -(-lanes // 8) if element == "i1" else lanes * size(element)
    if structure := re.fullmatch(r"\{ (.*) \}", type_name):
        return sum(size(part) for part in structure[1].split(", "))
    if integer := re.fullmatch(r"i(\d+)", type_name):
        return -(-int(integer[1]) // 8)
    if type_name not in _BYTES:
        raise Untraceable(f"it handles data of the type {type_name}")
    return _BYTES[type_name]


def functions(text: str) -> Iterator[tuple[str, str]]:
    """Name and text of the functions of a module that are the kernel's own."""
    for found in re.finditer(rf"^define .*?@({_NAME})\(.*?^}}$", text, re.M | re.S):
        name = found[1].strip('"')
        if not re.match(r"_ZN7cpython|cfunc\.|NRT_|__gufunc__", name):
            yield name, found[0]


def instrument(text: str) -> str:
    """The module with its kernel's functions recorded; what they call is in `hooks`.

    Raises Untraceable where a function does what cannot be recorded.
    """
    text = "\n".join(_plain(line) for line in text.split("\n"))
    defined = set(re.findall(rf"^define .*?@({_NAME})\(", text, re.M))
    for _, body in functions(text):
        text = text.replace(body, _Function(body, defined).recorded())
    return text


def _plain(line: str) -> str:
    """Without metadata and without promises that the twin does not keep."""
    if not line.startswith((" ", "define", "declare", "attributes")):
        return line
    return _PROMISES.sub("", _METADATA.sub("", line))


class _Function:
    """One function while it is rewritten: runs of instructions share one reservation of records."""

    def __init__(self, text: str, defined: set[str]) -> None:
        self._lines, self._defined = text.split("\n"), defined
        forks = "@numba_parallel_for" in text
        stack = set(re.findall(rf"(%{_NAME}) = alloca", text)) if forks else set()
        while forks:  # what is derived from the stack of a function that forks
            more = re.findall(rf"(%{_NAME}) = getelementptr .*?, ptr (%{_NAME})", text)
            found = {name for name, base in more if base in stack} - stack
            if not found:
                break
            stack |= found
        self._stack = stack
        self._done: list[str] = []
        self._start = self._records = self._serial = 0
        self._called = False

    def recorded(self) -> str:
        for line in self._lines:
            if not line.startswith("  "):  # a label, the head or the end of the function
                self._close()
                self._done.append(line)
                self._start = len(self._done)
            elif " = phi " in line:
                self._done.append(line)
                self._start = len(self._done)
            else:
                self._instruction(line)
        return "\n".join(self._done)

    def _instruction(self, line: str) -> None:
        load, store = _LOAD.search(line), _STORE.search(line)
        if access := load or store:
            self._access(access[1], access[2], store is not None)
        elif atomic := _ATOMIC.search(line):
            for stored in (False, True):
                self._access(atomic[2], atomic[1], stored)
        elif call := _CALL.search(line):
            self._call(line, call[1], call[2])
        elif _MEMORY.search(line):
            raise Untraceable(f"it does what cannot be recorded: {line.strip()[:60]}")
        self._done.append(line)
        if self._called:  # what was called makes records of its own
            self._start, self._called = len(self._done), False

    def _access(self, type_name: str, pointer: str, store: bool) -> None:
        if type_name == "ptr" or type_name.startswith("{ ptr") or pointer in self._stack:
            return
        meta = _signed(size(type_name) << ADDRESS_BITS | store * STORE)
        n, room = self._next(), self._room()
        self._done += [
            f'  %"trace.{n}" = ptrtoint ptr {pointer} to i64',
            f'  %"trace.{n}.r" = or i64 %"trace.{n}", {meta}',
            f'  %"trace.{n}.p" = getelementptr i64, ptr {room}, i64 {self._records - 1}',
            f'  store i64 %"trace.{n}.r", ptr %"trace.{n}.p"',
        ]

    def _call(self, line: str, callee: str, arguments: str) -> None:
        self._close()
        self._called = True
        name = callee[1:].strip('"')
        args = _split(arguments)
        if masked := re.match(r"llvm\.masked\.(load|store|gather|scatter)\.", name):
            self._lanes(masked[1], line, args)
        elif copied := re.match(r"llvm\.(memcpy|memmove|memset)\.", name):
            ends = args[:2] if copied[1] != "memset" else args[:1]
            pointers = ", ".join(f"ptr {_operand(x)}" for x in ends)
            hook = "copy" if len(ends) == 2 else "set"
            if _operand(ends[0]) not in self._stack:
                self._done.append(f"  call void @trace.{hook}({pointers}, {args[2]})")
        elif callee.startswith("asm") and "memory" not in callee:
            pass
        elif callee.startswith(("%", "asm")):
            raise Untraceable(f"it calls what is not known: {line.strip()[:60]}")
        elif name not in self._defined and callee[1:] not in self._defined:
            takes_pointers = any(re.search(r"\bptr\b", x) for x in args)
            if takes_pointers and not _RUN_TIME.match(name):
                raise Untraceable(f"it calls {name}, whose accesses cannot be seen")

    def _lanes(self, kind: str, line: str, args: list[str]) -> None:
        """Masked loads and stores, gathers and scatters: lane by lane."""
        store = kind in ("store", "scatter")
        data = args[0] if store else line.split("call ")[1]
        lanes, element = re.search(r"<(\d+) x (\w+)>", data).groups()  # type: ignore[union-attr]
        where = args[1] if store else args[0]
        mask = next(x for x in args[1:] if f"<{lanes} x i1>" in x)
        meta = _signed(size(element) << ADDRESS_BITS | store * STORE)
        for lane in range(int(lanes)):
            n = self._next()
            if where.startswith("<"):
                self._done.append(f'  %"trace.{n}" = extractelement {where}, i64 {lane}')
            else:
                base = f"ptr {_operand(where)}, i64 {lane}"
                self._done.append(f'  %"trace.{n}" = getelementptr {element}, {base}')
            self._done.append(f'  %"trace.{n}.m" = extractelement {mask}, i64 {lane}')
            call = f'call void @trace.lane(ptr %"trace.{n}", i64 {meta}, i1 %"trace.{n}.m")'
            self._done.append(f"  {call}")

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    def _room(self) -> str:
        if not self._records:
            self._name = f'%"trace.room.{self._next()}"'
        self._records += 1
        return self._name

    def _close(self) -> None:
        if self._records:
            call = f"  {self._name} = call ptr @trace.room(i64 {self._records})"
            self._done.insert(self._start, call)
        self._records, self._start = 0, len(self._done)


def _signed(x: int) -> int:
    return x - (1 << 64) if x >= STORE else x


def _split(arguments: str) -> list[str]:
    """The arguments of a call, at the commas that are in no bracket."""
    parts, depth = [""], 0
    for c in arguments:
        depth += (c in "(<{[") - (c in ")>}]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def _operand(argument: str) -> str:
    found = re.search(rf"({_VALUE})$", argument)
    assert found, argument
    return found[1]
