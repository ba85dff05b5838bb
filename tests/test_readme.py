"""What the README says is what happens."""

import json
import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_example_variant_is_right_as_printed(tmp_path):
    source = re.search(r"```python\n(.*?)```", README, re.S).group(1)
    (tmp_path / "mine.py").write_text(source, encoding="utf-8")
    rows = tmp_path / "rows.json"
    command = [sys.executable, "-m", "sandbox.compare", "mine.py", "--n", "64", "--rounds", "2"]
    command += ["--machine", "gh200", "--json", str(rows)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    mine = next(r for r in json.loads(rows.read_text()) if r["variant"] == "mine")
    assert mine["verdict"]["ok"]
    assert mine["timing"]
    assert mine["skipped"] is None


def test_the_first_block_is_the_two_commands():
    block = re.search(r"```sh\n(.*?)```", README, re.S).group(1)
    setup, tests = block.strip().splitlines()
    assert setup.endswith("-m sandbox.compare tiled")
    assert tests.endswith("-m pytest")
