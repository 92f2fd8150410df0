"""The commands of the README are those that CI types."""

import re

from tests.package.sources import ROOT


def test_ci_types_the_commands_of_the_readme():
    """Whole lines of its shell blocks that install something, comments left out."""
    readme = (ROOT / "README.md").read_text("utf-8")
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```$", readme, re.M | re.S)).splitlines()
    written = [line.partition("  #")[0] for line in lines if "pip install" in line]
    run = (ROOT / ".ci" / "run").read_text("utf-8")
    typed = re.findall(r'^(\w+)\(\) \{\n  typed \w+ "(.+)"$', run, re.M)
    assert [command for _, command in typed] == written
    assert [name for name, _ in typed] == ["first", "second", "third"]
    # The site is built where the change concerns it; the other two commands always.
    steps = re.findall(r"^(.*)\b(?:step|begin) \"the README's \w+ command\" (\w+)", run, re.M)
    assert sorted(steps) == [("", "first"), ("", "second"), ("if concerns site; then ", "third")]
