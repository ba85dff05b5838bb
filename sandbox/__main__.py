"""python -m sandbox COMMAND, and the script `sandbox`."""

from __future__ import annotations

import sys

from sandbox import compare
from sandbox.arguments import Parser
from sandbox.commands import roofline

COMMANDS = {"compare": compare.main, "roofline": roofline.main}


def main() -> int:
    """Run the command that the first argument names; returns its exit code."""
    p = Parser(prog="sandbox", description="Optimise matrix multiplication, and be judged.")
    p.add_argument("command", choices=COMMANDS, help="COMMAND --help tells more")
    options = p.parse_args(sys.argv[1:2])
    return COMMANDS[options.command](sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
