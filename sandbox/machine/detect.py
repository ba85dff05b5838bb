"""What this machine is: its processor, the cores and the memory that this process may use."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import archspec.cpu
import joblib
import psutil

if TYPE_CHECKING:
    from sandbox.machine.sheet import Cpu

_CPUS = Path("/sys/devices/system/cpu")
_CGROUP = Path("/sys/fs/cgroup")
# Where the system does not say. Generous: a bound with more fast memory is weaker, never wrong.
_ASSUMED = {1: 128 << 10, 2: 2 << 20, 3: 64 << 20}


def processor() -> str:
    """Its name as sold, and its microarchitecture."""
    brand = archspec.cpu.brand_string() or platform.processor() or platform.machine()
    return f"{brand}, {microarchitecture()}"


def microarchitecture() -> str:
    """By archspec's name: zen3, neoverse_v2; a generic one (x86_64_v3) where it knows none.

    A virtual machine may hide features and pass for an older one: where the caches are not those
    of the name's data sheet, it is "unknown".
    """
    from sandbox.machine import catalogue

    name = str(archspec.cpu.host().name)
    sheet = catalogue.microarchitecture(name)
    own = [c.one_bytes for c in hierarchy()][:2]
    return name if sheet is None or [c.bytes for c in sheet.caches[:2]] == own else "unknown"


def vector_isa() -> str:
    """The widest vector extension."""
    features = archspec.cpu.host().features
    names = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sve2": "SVE2", "sve": "SVE"}
    names |= {"asimd": "NEON", "sse2": "SSE2"}
    return next((name for flag, name in names.items() if flag in features), "unknown")


def usable_cores() -> int:
    """Physical cores within this process's affinity and its cgroup's quota."""
    return int(joblib.cpu_count(only_physical_cores=True))


def installed_cores() -> int:
    """Physical cores of the machine."""
    return psutil.cpu_count(logical=False) or psutil.cpu_count() or 1


def vector_registers_bytes() -> int:
    """The vector register file of one core as a program sees it."""
    features = archspec.cpu.host().features
    if "amx_tile" in features:
        return 32 * 64 + 8 * 1024
    if "avx512f" in features or "sve" in features:  # SVE's width is not told: 512 bits at most
        return 32 * 64
    return 16 * 32 if "avx" in features else 32 * 16


@dataclass(frozen=True)
class Cache:
    """A level of data caches: bytes of one, bytes of all that this process can reach.

    What the system does not say is None.
    """

    level: int
    one_bytes: int
    total_bytes: int
    instances: int
    ways: int | None = None
    line_bytes: int | None = None

    @property
    def policy(self) -> str:
        """Its microarchitecture's: `inclusive`, `victim` (it takes what the nearer level drops);
        or `unknown`."""
        sheet = data_sheet()
        known = sheet.caches[self.level - 1 : self.level] if sheet else ()
        return (known and known[0].policy) or "unknown"


def hierarchy() -> tuple[Cache, ...]:
    """The data caches from the nearest level to the last."""
    found: dict[tuple[int, str], dict[str, int]] = {}
    for folder in _cache_folders():
        text = {name: _read(folder / name) for name in ("level", "type", "size", "shared_cpu_list")}
        if text["type"] in ("Data", "Unified") and text["size"].endswith("K"):
            found[int(text["level"]), text["shared_cpu_list"]] = {
                "bytes": int(text["size"][:-1]) << 10,
                "ways": int(_read(folder / "ways_of_associativity") or 0),
                "line": int(_read(folder / "coherency_line_size") or 0),
            }
    if not found:
        cores = usable_cores()
        return tuple(Cache(level, size, size * cores, cores) for level, size in _ASSUMED.items())
    caches = []
    for level in sorted({level for level, _ in found}):
        same = [facts for (other, _), facts in found.items() if other == level]
        largest = max(same, key=lambda facts: facts["bytes"])
        total = sum(facts["bytes"] for facts in same)
        ways, line = largest["ways"] or None, largest["line"] or None
        caches.append(Cache(level, largest["bytes"], total, len(same), ways, line))
    return tuple(caches)


def data_sheet() -> Cpu | None:
    """Of this microarchitecture, in the catalogue; None where it is unknown."""
    from sandbox.machine import catalogue

    return catalogue.microarchitecture(microarchitecture())


def caches() -> dict[int, tuple[int, int]]:
    """Per level the bytes of one data cache, and of all those this process can reach."""
    return {c.level: (c.one_bytes, c.total_bytes) for c in hierarchy()}


def _read(path: Path) -> str:
    """What a file of /sys says, or nothing."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def cache_ways() -> dict[int, tuple[int, int]]:
    """Per level the ways of one data cache, and the bytes of a way; 8 ways where it is not said."""
    return {c.level: (c.ways or 8, c.one_bytes // (c.ways or 8)) for c in hierarchy()}


def _cache_folders() -> Iterator[Path]:
    process = psutil.Process()
    cpus = process.cpu_affinity() if hasattr(process, "cpu_affinity") else []
    for cpu in cpus:
        yield from (_CPUS / f"cpu{cpu}" / "cache").glob("index*")


def array_sizes(threads: int) -> dict[str, int]:
    """Bytes, powers of two, that each thread has to read to be served by that cache alone.

    Twice what is nearer, at least, and with the other threads three quarters of the cache, at
    most. A cache that has no such size is left out.
    """
    sizes, near = {}, 0
    for c in hierarchy():
        sharers = min(threads, max(1, usable_cores() // c.instances))
        most = c.one_bytes * 3 // 4 // sharers
        size = 1 << (min(most, 8 * near) if near else most).bit_length() - 1
        if size >= 2 * near:
            sizes[f"L{c.level}"] = size
        near = c.one_bytes
    return sizes


def available_bytes() -> int:
    """Memory that can be taken without swapping, within the cgroup's limit."""
    free = int(psutil.virtual_memory().available)
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        kinds = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        return min(free, limit - used + int(kinds.get("inactive_file", 0)))  # files can be dropped
    except (OSError, ValueError):  # no such limit
        return free


def fingerprint() -> str:
    """Changes when a stored ceiling no longer describes this process's machine."""
    facts = [processor(), usable_cores(), installed_cores(), caches()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
