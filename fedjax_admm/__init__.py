"""fedjax-admm: batch solvers for federated optimisation by ADMM and its primal-dual relatives.

The names that every program needs stand here; everything else has a room:

    fa.problems.localization(...)     problems: data with the mathematics of their clients
    fa.solvers.fsmdm(...)             solvers: one pure step per round
    fa.run(solver, problem, key, rounds=1000, measure=fa.measures.localization_error)

Names and rooms load when they are first used, so that `import fedjax_admm.kernels` costs a JAX user
nothing but jax. `__init__.pyi` lists them, for type checkers and for this file alike.
"""

from importlib.util import find_spec

from fedjax_admm._lazy import attach

if find_spec("fedjax_admm.kernels") is None:
    raise ImportError(
        f"fedjax_admm was found in {__path__[0]}, a clone that is not installed from there: its "
        "folders kernels/ and trials/ are parts of the package only when it is. Start Python in "
        "another folder, or install the clone with `pip install -e .`."
    )

__getattr__, __dir__, __all__ = attach(__name__, __file__)
