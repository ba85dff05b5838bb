"""Command lines: what they share, and errors in one line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """A parser that states the mistake in one line and exits with code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (--help shows what there is)\n")


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


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
    if text != "-":
        try:
            Path(text).open("a").close()
        except OSError as error:
            raise argparse.ArgumentTypeError(f"cannot write {text}: {error.strerror}") from None
    return Path(text)
