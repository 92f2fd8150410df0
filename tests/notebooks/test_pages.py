"""What stands as Python in the README and in the written pages of `docs/` runs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# One program from top to bottom; elsewhere every block is a program of its own.
WHOLE = tuple(
    f"docs/howto/{page}"
    for page in (
        "own-problem",
        "own-prox",
        "own-schedule",
        "own-solver",
        "messages",
        "checkpoints",
        "deploy",
        "frameworks",
        "large-data",
        "prox-elsewhere",
    )
)
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


# All in one process, so that they share imports and compiled programs: each has names, a folder and
# a record of used keys of its own.
RUN_ALL = """
import contextvars, json, os, sys, traceback
import jax

programs, told = json.load(sys.stdin), {}
for name, program in programs.items():
    folder = os.path.join(sys.argv[1], name)
    os.makedirs(folder)
    os.chdir(folder)
    try:
        code = compile(program, name, "exec")
        contextvars.Context().run(exec, code, {"__name__": "__main__"})
    except BaseException:
        told[name] = traceback.format_exc()
    jax.config.update("jax_enable_x64", False)
with open(os.path.join(sys.argv[1], "told"), "w") as file:
    json.dump(told, file)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Run all programs; return what those that failed have told, by their names."""
    folder = tmp_path_factory.mktemp("pages")
    environment = {**os.environ, "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS") or "cpu"}
    command = [sys.executable, "-W", "error::DeprecationWarning", "-c", RUN_ALL, str(folder)]
    done = subprocess.run(
        command, input=json.dumps(PROGRAMS), env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "told").read_text())


@pytest.mark.thorough
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_runs(name, told):
    assert name not in told, told[name]


def test_the_readmes_own_problem_is_short():
    """A loss, clients of different sizes and three solvers, in fewer than twelve lines."""
    program = PAGES["README"][1]
    assert "fa.problems.federated" in program
    assert sum(bool(line.strip()) for line in program.splitlines()) < 12
