"""Conformance checks for a user's own solvers, problems, penalties, kernels and exchange parts.

One line in a test makes all checks of a kind:

    def test_my_solver():
        fa.testing.check_solver(my_solver(), my_problem())

A failed check raises `AssertionError` with a sentence that names the failure, its numbers and the
repair. `only` picks some checks by name. Arguments that do not fit raise `InputError`.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
