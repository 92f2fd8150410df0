"""Dataclasses as pytrees: their structures tell classes apart."""

from dataclasses import field
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import penalties
from fedjax_admm._pytrees import pytree_dataclass


@pytree_dataclass
class Scaled:
    """A function with a leaf and a static number."""

    weight: jax.Array
    power: int = field(default=1, metadata={"static": True})

    def __call__(self, x):
        return self.weight * x**self.power


@pytree_dataclass
class Shifted(Scaled):
    """The same fields, another function."""

    def __call__(self, x):
        return self.weight + x**self.power


@pytest.mark.parametrize(
    "objects",
    [
        [penalties.l1(1.0), penalties.squared_l2(1.0), penalties.group_l2(1.0)],
        [penalties.mcp(1.0, 3.0), penalties.scad(1.0, 3.0)],
        [penalties.zero(), penalties.non_negative(), penalties.network_lasso()],
        [penalties.network_lasso(), penalties.entrywise_l1(), penalties.mocha()],
        [Scaled(1.0), Shifted(1.0)],
        [Scaled(1.0, 2), Scaled(1.0, 3)],
    ],
)
def test_structures_differ(objects):
    for first, second in combinations(map(jax.tree.structure, objects), 2):
        assert first != second


def test_equal_objects_have_equal_structures():
    first, second = (jax.tree.structure(Scaled(weight, 2)) for weight in (1.0, 5.0))
    assert first == second
    assert hash(first) == hash(second)


def test_leaves_static_fields_and_paths_survive():
    node = Scaled(jnp.array([1.0, 2.0]), 3)
    leaves, structure = jax.tree.flatten_with_path(node)
    assert [jax.tree_util.keystr(path) for path, _ in leaves] == [".weight"]
    back = jax.tree.unflatten(structure, [leaf for _, leaf in leaves])
    assert type(back) is Scaled
    assert back.power == 3
    np.testing.assert_array_equal(back.weight, node.weight)
    np.testing.assert_array_equal(jax.vmap(lambda f: f(2.0))(node), [8.0, 16.0])
    assert jax.grad(lambda f: f(2.0))(Scaled(1.0, 3)).weight == 8.0
