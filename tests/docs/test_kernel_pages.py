"""Pages of kernels: a formula for every map, three lines that run, and papers to copy."""

import inspect
import re
import sys
import types

import jax
import jax.numpy as jnp
import pytest

import fedjax_admm.kernels as kernels
from tests.package.sources import ROOT

# Without the package's own file, which needs Sphinx: the extra `dev` does not bring it.
sys.modules.setdefault("site_pages", types.ModuleType("site_pages")).__path__ = [
    str(ROOT / "docs" / "site_pages")
]

from site_pages.formulas import FORMULAS  # noqa: E402
from site_pages.kernels import use  # noqa: E402
from site_pages.names import Name  # noqa: E402
from site_pages.papers import papers  # noqa: E402

MAPS = sorted(name for name in kernels.__all__ if name.startswith(("prox_", "project_")))
ROOM = "fedjax_admm.kernels"


def named(name):
    return Name(ROOM, name, inspect.unwrap(getattr(kernels, name)).__module__)


def test_every_map_has_its_formulas_and_nothing_else_has():
    assert sorted(FORMULAS) == MAPS
    for name, formulas in FORMULAS.items():
        for formula in formulas:
            assert formula.count("{") == formula.count("}"), name
            assert len(re.findall(r"\\left\b", formula)) == len(re.findall(r"\\right\b", formula))
            opened, closed = (
                re.findall(rf"\\{word}{{(\w+)}}", formula) for word in ("begin", "end")
            )
            assert sorted(opened) == sorted(closed), name


SOME = ("prox_least_squares", "prox_mcp", "project_top_k_groups", "prox_spectral")
NAMES = [pytest.param(n, marks=() if n in SOME else pytest.mark.thorough) for n in MAPS]


@pytest.mark.parametrize("name", NAMES)
def test_the_lines_of_use_run_and_give_finite_numbers(name):
    lines = use(named(name))
    assert len(lines) == 3
    scope = {}
    exec("\n".join(lines[:-1]), scope)
    for part in jax.tree.leaves(eval(lines[-1], scope)):
        assert jnp.isfinite(part).all()


def test_papers_are_read_from_docstrings():
    mcp, firm = papers(inspect.getdoc(kernels.prox_mcp))
    assert (mcp.key, firm.key) == ("zhang2010", "gao1997")
    assert "author = {H.-Y. Gao and A. G. Bruce}" in firm.bibtex()
    cited, *_ = papers(inspect.getdoc(kernels.project_box))
    assert cited.title == "Proximal Algorithms"
