"""Modules whole, and filters: what is not trained stays, and what is trained alone travels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, pytree_dataclass

RNG = np.random.default_rng(0)
ROWS = {"x": RNG.standard_normal((5, 8, 3)), "y": RNG.standard_normal((5, 8))}


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def first():
    rng = np.random.default_rng(1)
    return {
        "body": jnp.asarray(rng.standard_normal((3, 4))),
        "a": jnp.ones((4, 2)),
        "b": jnp.ones(2),
    }


def loss(params, sample):
    out = jnp.tanh(sample["x"] @ params["body"]) @ (params["a"] @ params["b"])
    return (out - sample["y"]) ** 2


SOLVERS = {
    "fed_avg": lambda: fa.solvers.fed_avg(0.05, local_steps=2),
    "scaffold": lambda: fa.solvers.scaffold(0.05, local_steps=2),
    "fed_admm": fa.solvers.fed_admm,
}


@pytest.mark.kin(2)
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    "train", [lambda path: path != "body", {"body": False, "a": True, "b": True}]
)
def test_a_filter_is_a_split_by_hand(name, train):
    solver, key, start = SOLVERS[name](), jax.random.key(0), first()
    body = start["body"]

    def by_hand(params, sample):
        return loss({"body": body, **params}, sample)

    split = fa.problems.federated(by_hand, ROWS, {"a": start["a"], "b": start["b"]})
    problem = fa.problems.federated(loss, ROWS, start, train=train)
    expected = fa.run(solver, split, key, rounds=10).estimate
    estimate = fa.run(solver, problem, key, rounds=10).estimate
    np.testing.assert_array_equal(estimate["body"], body)
    for part in ("a", "b"):
        np.testing.assert_allclose(estimate[part], expected[part], rtol=1e-12, atol=1e-12)
    assert solver.traffic(problem) == solver.traffic(split)
    assert problem.start.shape == (10,)


@pytree_dataclass
class Module:
    activation: object  # before the weight: what is no array takes no place in the vector
    weight: jax.Array
    rate: float
    count: jax.Array

    def __call__(self, x):
        return self.activation(x @ self.weight) * self.rate


def module_loss(module, sample):
    return (module(sample["x"]) - sample["y"]) ** 2


def test_a_module_is_taken_and_returned_whole(tmp_path):
    module = Module(jnp.tanh, jnp.ones(3), 0.5, jnp.arange(2))
    problem = fa.problems.federated(module_loss, ROWS, module)
    solver, key = fa.solvers.fed_avg(0.1), jax.random.key(0)
    run = fa.run(solver, problem, key, rounds=3, checkpoint=tmp_path / "run.npz")
    assert isinstance(run.estimate, Module)
    assert run.estimate.activation is jnp.tanh
    assert run.estimate.rate == 0.5
    np.testing.assert_array_equal(run.estimate.count, module.count)
    assert not np.array_equal(run.estimate.weight, module.weight)
    assert problem.start.shape == (3,)
    fa.save(run, tmp_path / "saved.npz")
    again = fa.load(tmp_path / "saved.npz", like=run).estimate
    np.testing.assert_array_equal(again(ROWS["x"][0]), run.estimate(ROWS["x"][0]))
    batch = jax.vmap(lambda k: fa.run(solver, problem, k, rounds=3).estimate)(
        jax.random.split(key, 2)
    )
    assert batch.activation is None
    assert batch.weight.shape[-1] == 3


@pytest.mark.thorough
def test_equinox_modules():
    eqx = pytest.importorskip("equinox", reason="needs equinox")
    module = eqx.nn.MLP(3, "scalar", 4, 1, key=jax.random.key(0))
    problem = fa.problems.federated(
        module_loss, ROWS, module, train=lambda path: path.startswith("layers/1")
    )
    trained = fa.run(fa.solvers.fed_avg(0.1), problem, jax.random.key(0), rounds=3).estimate
    assert isinstance(trained, eqx.nn.MLP)
    assert trained(jnp.ones(3)).shape == ()
    np.testing.assert_array_equal(trained.layers[0].weight, module.layers[0].weight)
    assert not np.array_equal(trained.layers[1].weight, module.layers[1].weight)


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ({"body": False, "a": False, "b": False}, "must leave a floating array"),
        (lambda path: None, "must be bools"),
    ],
)
def test_filters_that_do_not_fit(train, words):
    with pytest.raises(InputError, match=words):
        fa.problems.federated(loss, ROWS, first(), train=train)
