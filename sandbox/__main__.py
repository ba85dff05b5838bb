"""python -m sandbox COMMAND, and the script `sandbox`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

COMMANDS = {
    "compare": "sandbox.compare",
    "roofline": "sandbox.commands.roofline",
    "compiled": "sandbox.commands.compiled",
    "pebble": "sandbox.commands.pebble",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names; returns its exit code, 130 where it is
    interrupted, be it while it is imported, and 2 where there is no room for what it says."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        from sandbox.arguments import Parser

        p = Parser(prog="sandbox", description="Optimise matrix multiplication, and be judged.")
        p.add_argument("command", choices=COMMANDS, help="COMMAND --help tells more")
        options = p.parse_args(given[:1])
        code: int = importlib.import_module(COMMANDS[options.command]).main(given[1:])
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        sys.stderr.write(f"error: {error.filename or 'output'}: {error.strerror}\n")
        return 2
    return code


if __name__ == "__main__":
    sys.exit(main())
