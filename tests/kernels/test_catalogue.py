"""The catalogue of kernels is complete, of today, and names nothing that is not there."""

import re

import pytest

import fedjax_admm.kernels as kernels
from tests.kernels import catalogue
from tests.kernels.peers import PACKAGES


def test_the_page_is_that_of_the_docstrings_of_today():
    assert catalogue.PAGE.read_text() == catalogue.page(), "run python -m tests.kernels.catalogue"


def test_every_public_name_stands_in_the_page_and_every_map_has_its_picture():
    page = catalogue.PAGE.read_text()
    for name in kernels.__all__:
        assert f"`~fedjax_admm.kernels.{name}`" in page, name
    drawn = {path.stem for path in catalogue.PICTURES.glob("*.svg")}
    assert drawn == set(catalogue.pictured())


@pytest.mark.parametrize("name", sorted(catalogue.pictured()))
def test_a_map_tells_its_formula_its_derivative_and_where_it_is_from(name):
    found = catalogue.documented(name)
    assert "`" in found.purpose + found.body
    assert "erivative" in found.body
    assert found.reference


@pytest.mark.parametrize("peer", PACKAGES, ids=lambda peer: peer.title.split()[0])
def test_what_is_said_to_be_here_is_here(peer):
    for theirs, ours in peer.maps.items():
        named = re.findall(r"`(\w+)`", ours)
        assert named or ours.startswith("none: "), theirs
        known = {*kernels.__all__, "step"}
        assert set(named) <= known, (theirs, set(named) - known)
