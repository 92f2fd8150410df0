"""Trees of arrays: one map for all leaves, one for each by its path, steps that are trees."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm.kernels import (
    prox_elastic_net,
    prox_group_l2,
    prox_l1,
    prox_tv2d_isotropic,
    translate,
    tree_prox,
    with_gap,
)


def network():
    return {
        "dense": {"kernel": jnp.asarray([[3.0, -4.0], [0.3, 0.4]]), "bias": jnp.asarray([0.5])},
        "layers": [{"kernel": jnp.asarray([[-0.2, 2.0]]), "bias": jnp.asarray([-2.0])}],
    }


def same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), found, expected)


def test_one_map_for_every_leaf_with_its_parameters():
    tree = network()
    expected = jax.tree.map(lambda leaf: prox_elastic_net(leaf, 0.5, 1.0, 2.0), tree)
    same(tree_prox(prox_elastic_net, tree, 0.5, 1.0, 2.0), expected)
    traced = jax.jit(lambda t, s, w: tree_prox(prox_elastic_net, t, s, w, 2.0))(tree, 0.5, 1.0)
    same(traced, expected)


def test_a_map_of_its_own_for_leaves_by_path():
    """The first pattern that fits decides; None, and no pattern at all, leave a leaf unchanged."""
    maps = {"dense/kernel": prox_group_l2, "*/0/bias": None, "layers/*": prox_l1}
    found = tree_prox(maps, network(), 1.0)
    expected = network()
    expected["dense"]["kernel"] = jnp.asarray([[2.4, -3.2], [0.0, 0.0]])
    expected["layers"][0]["kernel"] = jnp.asarray([[0.0, 1.0]])
    same(found, expected)


def test_steps_are_a_number_a_tree_or_the_upper_part_of_one():
    tree = network()
    full = {"dense": {"kernel": 1.0, "bias": 0.2}, "layers": [{"kernel": 0.1, "bias": 0.1}]}
    upper = {"dense": {"kernel": 1.0, "bias": 0.2}, "layers": 0.1}
    expected = jax.tree.map(prox_l1, tree, full)
    same(tree_prox(prox_l1, tree, full), expected)
    same(tree_prox(prox_l1, tree, upper), expected)
    one_each = {"dense": {"kernel": jnp.asarray([[1.0], [0.0]]), "bias": 0.2}, "layers": 0.1}
    np.testing.assert_allclose(
        tree_prox(prox_l1, tree, one_each)["dense"]["kernel"], [[2.0, -3.0], [0.3, 0.4]]
    )
    with pytest.raises(ValueError, match="tree"):
        tree_prox(prox_l1, tree, {"dense": 1.0})


def test_every_leaf_keeps_its_dtype_and_those_that_are_not_touched_are_the_same_objects():
    tree = {"half": jnp.ones(2, jnp.bfloat16), "full": jnp.ones(2), "count": jnp.arange(2)}
    found = tree_prox({"half": prox_l1, "full": prox_l1}, tree, jnp.asarray(0.25))
    assert {name: leaf.dtype for name, leaf in found.items()} == {
        name: leaf.dtype for name, leaf in tree.items()
    }
    assert found["count"] is tree["count"]


@pytest.mark.thorough
def test_a_map_that_approximates_goes_into_trees_and_other_maps():
    """It returned its gap beside the point, and the tree had the pair as its leaf."""
    image = jnp.asarray([[1.0, 2.0], [0.0, 4.0]])
    alone = prox_tv2d_isotropic(image, 0.5)
    assert alone.shape == image.shape
    same(tree_prox(prox_tv2d_isotropic, {"image": image}, 0.5), {"image": alone})
    moved = translate(prox_tv2d_isotropic, 1.0)
    np.testing.assert_allclose(moved(image, 0.5), alone, atol=1e-5)  # a constant costs nothing
    points, gap = with_gap(prox_tv2d_isotropic)(image, 0.5)
    np.testing.assert_array_equal(points, alone)
    assert gap.shape == ()


def test_a_pattern_that_decides_about_no_leaf_is_refused():
    sentence = (
        "the pattern '*/weight' fits no leaf; the leaves are 'dense/bias', 'dense/kernel', "
        "'layers/0/bias', 'layers/0/kernel'."
    )
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        tree_prox({"*/weight": prox_l1}, network(), 1.0)
    with pytest.raises(ValueError, match=r"'\*/bias' decides about no leaf, .* '\*' before; write"):
        tree_prox({"*": prox_l1, "*/bias": None}, network(), 1.0)
    with pytest.raises(ValueError, match="the leaves are none"):
        tree_prox({"*": prox_l1}, {}, 1.0)
