"""How much a program computes, counted by hand."""

import jax
import jax.numpy as jnp

from fedjax_admm.trials import limits


def test_operations_by_hand():
    def program(a, b):
        def step(carry, _):
            return jnp.sin(carry), None

        product = a @ b
        carry, _ = jax.lax.scan(step, product, length=5)
        return jax.lax.switch(jnp.int32(0), [lambda x: x + 1, lambda x: x @ x.T @ x], carry)

    counted = limits.operations(jax.make_jaxpr(program)(jnp.ones((3, 4)), jnp.ones((4, 2))))
    product, scan = 2 * 3 * 4 * 2, 5 * 3 * 2
    branches = (3 * 2 + (2 * 3 * 2 * 3 + 2 * 3 * 3 * 2 + 2 * 3)) / 2
    few = 4  # the transposition and the number of the branch
    assert product + scan + branches - few <= counted <= product + scan + branches + few


def test_this_machine_computes():
    assert 1e7 < limits.product_speed() < 1e15
