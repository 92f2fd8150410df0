"""Rounds of the reference of private networked federated learning, by hand."""

import numpy as np
import pytest

from tests.reference import zcdp

# Nothing in the library can change the reference.
pytestmark = pytest.mark.thorough


def silent(rounds):
    return np.zeros((rounds, 3)), np.zeros((rounds, 3, 1))


def test_three_clients_on_a_path_by_hand():
    """One sample x = 1 each, loss (w - y)^2, and clients {0, 1}, {1, 2}, {0, 2}, {0, 1}."""
    x, y = np.ones((3, 1, 1)), np.array([[1.0], [2.0], [4.0]])
    masks = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], bool)
    eta, rho = np.array([0.5, 0.25, 0.125, 0.1]), 1.0
    path = np.array([(0, 1), (1, 2)])
    _, v, gamma = zcdp.zcdp_nfl("squared", x, y, None, path, eta, rho, *silent(4), masks=masks)
    # Round 1: a_0 = 1/4, a_1 = 1/6. Edge (0, 1) is on.
    a, b = 2.0 / 4.0, 4.0 / 6.0
    duals = [a - b, b - a, 0.0]
    np.testing.assert_allclose(v[0, :, 0], [a, b, 0.0], atol=1e-15)
    np.testing.assert_allclose(gamma[0, :, 0], duals, atol=1e-15)
    # Round 2: client 1 for the second time, a_1 = 1/8; client 2 for the first, a_2 = 1/4.
    b2 = b - (2.0 * (b - 2.0) + duals[1] + (b - a) + (b - 0.0)) / 8.0
    c = 0.0 - (2.0 * (0.0 - 4.0) + duals[2] + (0.0 - b)) / 4.0
    duals = [duals[0], duals[1] + b2 - c, duals[2] + c - b2]
    np.testing.assert_allclose(v[1, :, 0], [a, b2, c], atol=1e-15)
    np.testing.assert_allclose(gamma[1, :, 0], duals, atol=1e-15)
    # Round 3: clients 0 and 2, no edge between them; both for the second time, a = 1/6.
    a2 = a - (2.0 * (a - 1.0) + duals[0] + (a - b2)) / 6.0
    c2 = c - (2.0 * (c - 4.0) + duals[2] + (c - b2)) / 6.0
    np.testing.assert_allclose(v[2, :, 0], [a2, b2, c2], atol=1e-15)
    np.testing.assert_allclose(gamma[2, :, 0], duals, atol=1e-15)
    # Round 4: clients 0 and 1 for the third time, a_0 = 1/10, a_1 = 1/12.
    a3 = a2 - (2.0 * (a2 - 1.0) + duals[0] + (a2 - b2)) / 10.0
    b3 = b2 - (2.0 * (b2 - 2.0) + duals[1] + (b2 - a2) + (b2 - c2)) / 12.0
    duals = [duals[0] + a3 - b3, duals[1] + b3 - a3, duals[2]]
    np.testing.assert_allclose(v[3, :, 0], [a3, b3, c2], atol=1e-15)
    np.testing.assert_allclose(gamma[3, :, 0], duals, atol=1e-15)


def test_the_subgradient_method_with_masks_by_hand():
    x, y = np.ones((3, 1, 1)), np.array([[1.0], [2.0], [4.0]])
    masks = np.array([[1, 1, 0], [0, 1, 1]], bool)
    path = np.array([(0, 1), (1, 2)])
    eta = np.array([0.1, 0.05])
    w, _ = zcdp.zcdp_grad("squared", x, y, None, path, eta, *silent(2), masks=masks)
    # All weights of edges are 1/3.
    np.testing.assert_allclose(w[0, :, 0], [0.2, 0.4, 0.0], atol=1e-15)
    second = (0.2 + 0.4 + 0.0) / 3.0 - 0.05 * 2.0 * (0.4 - 2.0)
    third = 2.0 / 3.0 * 0.0 + 0.4 / 3.0 - 0.1 * 2.0 * (0.0 - 4.0)
    np.testing.assert_allclose(w[1, :, 0], [0.2, second, third], atol=1e-15)
