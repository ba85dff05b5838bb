"""python -m sandbox COMMAND, and the script `sandbox`."""

from __future__ import annotations

import sys
from importlib import import_module

from sandbox.arguments import Parser

COMMANDS = {
    "compare": "sandbox.compare",
    "pebble": "sandbox.commands.pebble",
    "roofline": "sandbox.commands.roofline",
}


def main() -> int:
    """Run the command that the first argument names; returns its exit code."""
    p = Parser(prog="sandbox", description="Optimise matrix multiplication, and be judged.")
    p.add_argument("command", choices=COMMANDS, help="COMMAND --help tells more")
    options = p.parse_args(sys.argv[1:2])
    code: int = import_module(COMMANDS[options.command]).main(sys.argv[2:])
    return code


if __name__ == "__main__":
    sys.exit(main())
