"""python -m sandbox COMMAND, and the script `sandbox`."""

from __future__ import annotations

import importlib
import sys

from sandbox.arguments import Parser

COMMANDS = {
    "compare": "sandbox.compare",
    "roofline": "sandbox.commands.roofline",
    "compiled": "sandbox.commands.compiled",
    "pebble": "sandbox.commands.pebble",
}


def main() -> int:
    """Run the command that the first argument names; returns its exit code."""
    p = Parser(prog="sandbox", description="Optimise matrix multiplication, and be judged.")
    p.add_argument("command", choices=COMMANDS, help="COMMAND --help tells more")
    options = p.parse_args(sys.argv[1:2])
    code: int = importlib.import_module(COMMANDS[options.command]).main(sys.argv[2:])
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
