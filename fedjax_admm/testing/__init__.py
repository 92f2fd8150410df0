"""Our conformance suite, for what is your own: solvers, problems, penalties, channels and so on.

One line in a test of yours makes all checks of a kind:

    def test_my_solver():
        fa.testing.check_solver(my_solver(), my_problem())

A check that fails raises `AssertionError` with a sentence that says what is wrong, with which
numbers, and what to repair. `only` picks some of them by name, to parametrise a test over
`SOLVER_CHECKS` and the like, or to leave one out. Arguments that do not fit raise `InputError`.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
