"""The one type alias of the kernels."""

from jax import Array

# A parameter: a Python number (weakly typed, so it never changes a dtype) or an array.
Real = Array | float
