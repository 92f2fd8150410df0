"""Values that XLA computes once and keeps, before whatever reads them."""

import jax
from jax.experimental.layout import Layout, with_layout_constraint


def computed_once(value: jax.Array) -> jax.Array:
    """Have XLA compute a value before what reads it, row by row; the value stays the same.

    XLA repeats whatever leads to a value in every loop that reads it: for each term of a sum, out
    of step with the vector unit, and for each row that is gathered. An optimisation barrier does
    not hinder it on a CPU; a layout that is asked for does.
    """
    return with_layout_constraint(value, Layout(tuple(range(value.ndim))))
