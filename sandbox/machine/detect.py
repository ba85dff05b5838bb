"""What this machine is: its processor, the cores and the memory that this process may use."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterator
from pathlib import Path

import archspec.cpu
import joblib
import psutil

_CPUS = Path("/sys/devices/system/cpu")
_CGROUP = Path("/sys/fs/cgroup")
# Where the system does not say. Generous: a bound with more fast memory is weaker, never wrong.
_ASSUMED = {1: 128 << 10, 2: 2 << 20, 3: 64 << 20}


def processor() -> str:
    """Its name as sold, and its microarchitecture."""
    brand = archspec.cpu.brand_string() or platform.processor() or platform.machine()
    return f"{brand}, {archspec.cpu.host().name}"


def usable_cores() -> int:
    """Physical cores within this process's affinity and its cgroup's quota."""
    return int(joblib.cpu_count(only_physical_cores=True))


def installed_cores() -> int:
    """Physical cores of the machine."""
    return psutil.cpu_count(logical=False) or psutil.cpu_count() or 1


def vector_registers_bytes() -> int:
    """The vector register file of one core as a program sees it."""
    features = archspec.cpu.host().features
    if "avx512f" in features:
        return 32 * 64
    return 16 * 32 if "avx" in features else 32 * 16


def caches() -> dict[int, tuple[int, int]]:
    """Per level the bytes of one data cache, and of all those this process can reach."""
    found: dict[tuple[int, str], int] = {}
    for index in _cache_folders():
        try:
            level, kind, size, shared = (
                (index / name).read_text().strip()
                for name in ("level", "type", "size", "shared_cpu_list")
            )
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K"):
            found[int(level), shared] = int(size[:-1]) << 10
    sizes = {
        level: [size for (other, _), size in found.items() if other == level]
        for level in sorted({level for level, _ in found})
    }
    if not sizes:
        return {level: (size, size * usable_cores()) for level, size in _ASSUMED.items()}
    return {level: (max(known), sum(known)) for level, known in sizes.items()}


def cache_ways() -> dict[int, tuple[int, int]]:
    """Per level the ways of one data cache, and the bytes of a way; 8 ways where it is not said."""
    found = {}
    for level, (size, _) in caches().items():
        said = (index for index in _cache_folders() if _says(index, "level") == str(level))
        ways = next((int(_says(x, "ways_of_associativity") or 0) for x in said), 0) or 8
        found[level] = ways, size // ways
    return found


def _says(index: Path, name: str) -> str:
    try:
        return (index / name).read_text().strip()
    except OSError:
        return ""


def _cache_folders() -> Iterator[Path]:
    process = psutil.Process()
    cpus = process.cpu_affinity() if hasattr(process, "cpu_affinity") else []
    for cpu in cpus:
        yield from (_CPUS / f"cpu{cpu}" / "cache").glob("index*")


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
