"""Dilution of precision against its formula."""

import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import regions

pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.parametrize("clients", [3, 8])
def test_a_regular_polygon_has_a_known_dilution(clients):
    angles = 2 * np.pi * np.arange(clients) / clients
    anchors = 5 * np.stack([np.cos(angles), np.sin(angles)], 1)
    known = regions.dilution(anchors, np.zeros(2))
    np.testing.assert_allclose(known["pdop"], 2 / np.sqrt(clients), rtol=1e-9)
    assert sorted(known) == ["gdop", "pdop"]
    found = regions.dilution(anchors, np.zeros(2), clock=True)
    np.testing.assert_allclose(found["tdop"], clients**-0.5, rtol=1e-9)
    np.testing.assert_allclose(found["gdop"], np.sqrt(5 / clients), rtol=1e-9)


def test_shapes_are_checked():
    with pytest.raises(fa.InputError, match="position"):
        regions.dilution(np.eye(3), np.zeros(2))
