"""The Cramer-Rao bound and dilution of precision against their formulas."""

import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import regions

pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.parametrize("clock", [False, True])
def test_the_bound_is_a_block_of_the_inverse_information(clock):
    generator = np.random.default_rng(1)
    anchors, place = generator.uniform(-9, 9, (7, 3)), generator.uniform(-3, 3, (2, 3))
    sigma, scale = generator.uniform(0.5, 2, 7), generator.uniform(0.5, 2, 7)
    found = regions.cramer_rao(anchors, place, sigma, offset_scale=scale, clock=clock)
    for row in range(2):
        ways = (place[row] - anchors) / np.linalg.norm(place[row] - anchors, axis=1)[:, None]
        jacobian = np.hstack([ways, np.eye(7), np.ones((7, 1 if clock else 0))])
        information = (jacobian.T / sigma**2) @ jacobian
        information[3:10, 3:10] += np.diag(1 / scale**2)
        np.testing.assert_allclose(found[row], np.linalg.inv(information)[:3, :3], rtol=1e-9)


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
