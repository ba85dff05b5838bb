"""The terminal: its width and its colours, what it cannot encode, and a reader that leaves."""

from __future__ import annotations

import os
from typing import TextIO

from rich.console import Console


class Terminal(Console):
    """A console that falls silent when its reader has gone (`| head -1`), and never fails on a
    character that the terminal's encoding lacks. NO_COLOR means no escape sequence at all."""

    def __init__(self, stream: TextIO) -> None:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        plain = bool(os.environ.get("NO_COLOR"))
        super().__init__(
            file=stream,
            color_system=None if plain else "auto",
            force_terminal=False if plain else None,  # nor what FORCE_COLOR asks for
            markup=False,
            highlight=False,
            emoji=False,
            soft_wrap=False,
        )

    def write(self, text: str) -> None:
        """Text just as it is."""
        try:
            self.file.write(text)
            self.file.flush()
        except BrokenPipeError:
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        """Say no more, and let the work be finished and saved."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())
