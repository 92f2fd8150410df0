"""Every sentence of a family is told somewhere, and what is told is there."""

import re
import tomllib

import pytest

from tests.package.sources import ROOT

FAMILIES = sorted(path.parent for path in (ROOT / "trials/solve").glob("*/sentences.toml"))


@pytest.mark.parametrize("folder", FAMILIES, ids=lambda folder: folder.name)
def test_all_sentences_are_told(folder):
    code = "\n".join(path.read_text() for path in folder.glob("*.py"))
    sentences = set(tomllib.loads((folder / "sentences.toml").read_text()))
    told = set(re.findall(r'\bsay\(\s*"(\w+)"', code))
    assert told <= sentences
    assert all(f'"{name}"' in code for name in sentences)
