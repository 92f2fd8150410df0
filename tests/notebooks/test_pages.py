"""What stands as Python in the README and in the written pages of `docs/` runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# One program from top to bottom; elsewhere every block is a program of its own.
WHOLE = ("docs/howto/own-problem", "docs/howto/messages")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = {
    path.relative_to(ROOT).with_suffix("").as_posix(): BLOCK.findall(path.read_text("utf-8"))
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "generated" not in path.parts
}
PROGRAMS = {
    f"{name}-{number}": program
    for name, blocks in PAGES.items()
    for number, program in enumerate(["\n".join(blocks)] if name in WHOLE else blocks)
}


def ran(program, folder):
    environment = {**os.environ, "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS") or "cpu"}
    command = [sys.executable, "-W", "error::DeprecationWarning", "-c", program]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400
    )


@pytest.mark.thorough
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_it_runs(program, tmp_path):
    done = ran(program, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_readmes_own_problem_is_short():
    """A loss, clients of different sizes and three solvers, in fewer than twelve lines."""
    program = PAGES["README"][0]
    assert "fa.problems.federated" in program
    assert sum(bool(line.strip()) for line in program.splitlines()) < 12
