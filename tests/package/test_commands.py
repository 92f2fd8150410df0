"""The commands of the README are those that CI types."""

import re

from tests.package.sources import ROOT


def test_ci_types_the_commands_of_the_readme():
    """Whole lines of its shell blocks that install something, comments left out."""
    readme = (ROOT / "README.md").read_text("utf-8")
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```$", readme, re.M | re.S)).splitlines()
    written = [line.partition("  #")[0] for line in lines if "pip install" in line]
    typed = re.findall(r'^  typed \w+ "(.+)"$', (ROOT / ".ci" / "run").read_text("utf-8"), re.M)
    assert len(written) == 3
    assert typed == written
