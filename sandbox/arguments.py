"""Command lines: what they share, and errors in one line."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import NoReturn

from sandbox.report.console import Terminal

PICTURES = (".svg", ".png", ".pdf")


class Parser(argparse.ArgumentParser):
    """A parser that states the mistake in one line and exits with code 2."""

    def print_help(self, file: object = None) -> None:
        """To standard output, even where its reader has gone."""
        Terminal(sys.stdout).write(self.format_help())

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (--help shows what there is)\n")

    def apart(self, options: argparse.Namespace, *names: str) -> None:
        """Exit where two of these options name the same file: one would overwrite the other."""
        taken: dict[Path, str] = {}
        for name in names:
            if path := getattr(options, name):
                other = taken.setdefault(path.resolve(), name)
                if other != name:
                    self.error(f"--{other} and --{name} cannot both be {path}: give another file")


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if len(text) > 12:
        raise argparse.ArgumentTypeError(f"{text[:12]}... is too large a number")
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def side(text: str) -> int:
    """The side of a matrix that could be."""
    if (n := positive(text)) > 1 << 20:
        raise argparse.ArgumentTypeError(f"{text} is too large a matrix: {1 << 20} at most")
    return n


_LARGEST = 4 << 30
_UNITS = {"": 1, "B": 1, "K": 1000, "M": 1000**2, "G": 1000**3}
_UNITS |= {"KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}


def capacity(text: str) -> int:
    """Bytes: 32768, 32KiB, 1.5MiB, 64kB."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d+)?)\s*([A-Z]*?)B?", text.strip().upper())
    if not found or found[2] not in _UNITS or not (size := int(float(found[1]) * _UNITS[found[2]])):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size as 32KiB, 1.5MiB or 32768")
    if size > _LARGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is larger than any cache: 4GiB at most")
    return size


def sizes(text: str) -> list[int]:
    """256,512"""
    return [positive(part) for part in text.split(",")]


def shapes(text: str) -> list[tuple[int, int, int]]:
    """MxNxK, or several with commas between them."""
    found = []
    for part in text.split(","):
        numbers = part.lower().split("x")
        if len(numbers) != 3:
            raise argparse.ArgumentTypeError(f"{part!r} is not of the form MxNxK, as 512x256x1024")
        m, n, k = (positive(x) for x in numbers)
        found.append((m, n, k))
    return found


def seconds(text: str) -> float:
    """A time above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def writable(text: str) -> Path:
    """A file that can be written, tried before any work is done; - is standard output."""
    path = Path(text)
    if text != "-":
        try:
            is_new = not path.exists()
            path.open("a").close()
            if is_new:
                path.unlink()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise argparse.ArgumentTypeError(f"cannot write {text!r}: {reason}") from None
    return path


def picture(text: str) -> Path:
    """A file of a format that pictures are saved in, and that can be written."""
    if not text.lower().endswith(PICTURES):
        raise argparse.ArgumentTypeError(f"{text!r} does not end in {', '.join(PICTURES)}")
    return writable(text)
