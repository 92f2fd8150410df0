"""Every solver obeys the protocol: what `fedjax_admm.testing` checks, and what only we can."""

import functools

import jax
import pytest

import fedjax_admm as fa
from fedjax_admm.testing import check_solver
from fedjax_admm.testing._solvers import SOLVER_CHECKS
from tests.bits import TOLERANCE
from tests.builders import builders
from tests.solvers.conformance import SOLVERS

# Of solvers of all kinds: what a mask may touch, and what follows from a step that is traceable.
OF_ALL_KINDS = (
    *("FSMDM", "SCAFFOLD", "IFCA", "HFSAD, 2 passes", "GTVPrimalDual", "EXTRA"),
    *("FedMCADMM", "PrivateNetworkedADMM"),
)
# In the run that everybody makes: of every solver, of some kinds, and of a few.
QUICK = tuple(name for name in OF_ALL_KINDS if name != "IFCA")
ALL = ("traffic", "dtype")
EXAMPLES = {
    "absent": QUICK,
    "traces": ("SCAFFOLD", "GTVPrimalDual", "PrivateNetworkedADMM"),
    "gradients": ("FSMDM",),
}
# In the thorough one: of every solver, and of these kinds. Rounds, masks and keys are the work of
# one harness per topology, of which each kind has its own.
MORE = ("absent",)
KINDS = ("traces", "gradients", "structure", "resumes", "keys")


def rows():
    """Yield a check and a solver, and whether it is for the thorough run alone."""
    for only in SOLVER_CHECKS:
        for name in SOLVERS:
            quick = only in ALL or name in EXAMPLES.get(only, ())
            if quick or only in MORE + KINDS * (name in OF_ALL_KINDS):
                yield only, name, not quick


def test_every_solver_is_in_the_table():
    """Every function of `fa.solvers` that builds one."""
    listed = {case.builder.__name__ for case in SOLVERS.values()}
    assert listed == set(builders(fa.solvers, "step", "estimate", "messages"))
    assert set(SOLVER_CHECKS) == {only for only, *_ in rows()}


@functools.cache
def solver_and_problem(name):
    return SOLVERS[name].solver(), SOLVERS[name].problem()


def checked(solver, problem, name: str, only: str) -> None:
    case = SOLVERS[name]
    check_solver(
        solver,
        problem,
        clients=case.clients,
        bits=TOLERANCE,
        only=only,
    )


@pytest.mark.parametrize(
    ("only", "name"),
    [
        pytest.param(
            only,
            name,
            marks=[pytest.mark.thorough] * dear + [pytest.mark.bits] * (only == "resumes"),
        )
        for only, name, dear in rows()
    ],
)
def test_solver(name, only):
    checked(*solver_and_problem(name), name, only)


@pytest.mark.parametrize("name", SOLVERS)
def test_the_estimate_is_a_model_or_one_of_each_client(name):
    case, (solver, problem) = SOLVERS[name], solver_and_problem(name)
    found = jax.eval_shape(
        lambda key: solver.estimate(solver.init(problem, key)), jax.random.key(0)
    )
    shape = getattr(found, "shape", None)  # a pytree of models has none
    assert shape is None or shape in case.shapes(problem)


@pytest.mark.parametrize("name", SOLVERS)
def test_the_refusal_of_an_unfit_problem_says_who_has_what_it_needs(name):
    with pytest.raises(
        fa.InputError, match=r"needs a problem with .*which object lacks; problems\."
    ):
        fa.run(solver_and_problem(name)[0], object(), jax.random.key(5), rounds=8)
