"""What others supply is named exactly: the actions of CI, and the versions that it installs."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def pinned():
    lines = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_actions_are_pinned_to_commits():
    workflows = list((ROOT / ".github" / "workflows").glob("*.yml"))
    used = [use for path in workflows for use in re.findall(r"uses: *(.+)", path.read_text())]
    assert used
    for use in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", use), use


def test_constraints_pin_what_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = {name.lower().replace("_", "-"): version for name, version in pinned().items()}
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *extras["dev"]]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(versions[requirement.name.lower()]), text


def test_every_place_names_the_version_that_a_release_would_have():
    command = [sys.executable, str(ROOT / ".ci" / "release_notes.py"), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
