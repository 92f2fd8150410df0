"""Every solver obeys the protocol: what `fedjax_admm.testing` checks, and what only we can."""

import jax
import pytest

import fedjax_admm as fa
from fedjax_admm.testing import SOLVER_CHECKS, check_solver
from tests.bits import TOLERANCE
from tests.builders import builders
from tests.solvers.conformance import SOLVERS

# Dear, and seldom the only ones to fail; resumption is in the run for last bits, too, and a key
# that is used twice raises in every test.
SLOW = ("structure", "vmap", "resumes", "replayed", "keys")
# What a mask may touch, and derivatives, are in every run for some solvers of all kinds; for all of
# them in the thorough one.
OF_ALL_KINDS = (
    *("FSMDM", "SCAFFOLD", "FedADMM", "FedDyn", "HFSAD, 2 passes", "GTVPrimalDual", "EXTRA"),
    *("IFCA", "FedMCADMM", "PrivateNetworkedADMM"),
)
EXAMPLES = {
    "absent": OF_ALL_KINDS,
    "nobody": OF_ALL_KINDS,
    "traces": OF_ALL_KINDS,
    "gradients": ("FSMDM", "SCAFFOLD", "GTVPrimalDual", "PrivateNetworkedADMM"),
}


def slow(only: str, name: str) -> bool:
    return only in SLOW or name not in EXAMPLES.get(only, (name,))


def marks(*wanted: tuple[bool, str]) -> list[pytest.MarkDecorator]:
    return [getattr(pytest.mark, name) for holds, name in wanted if holds]


def test_every_solver_is_in_the_table():
    """Every function of `fa.solvers` that builds one, in the run that everybody makes."""
    listed = {case.builder.__name__ for case in SOLVERS.values() if not case.thorough}
    assert listed == set(builders(fa.solvers, "step", "estimate", "messages"))


def checked(name: str, only: str) -> None:
    case = SOLVERS[name]
    problem = case.problem()
    check_solver(
        case.solver(),
        problem,
        clients=case.clients,
        shapes=case.shapes(problem),
        bits=TOLERANCE,
        only=only,
    )


@pytest.mark.parametrize(
    ("only", "name"),
    [
        pytest.param(
            only,
            name,
            marks=marks(
                (case.thorough or slow(only, name), "thorough"),
                (only in ("resumes", "replayed"), "bits"),
            ),
        )
        for only in SOLVER_CHECKS
        for name, case in SOLVERS.items()
    ],
)
def test_solver(name, only):
    # conftest switches jax_debug_key_reuse on: a reused key raises in every one of them.
    assert jax.config.jax_debug_key_reuse
    checked(name, only)


@pytest.mark.thorough
@pytest.mark.parametrize("only", ["structure", "dtype", "gradients"])
@pytest.mark.parametrize("name", SOLVERS)
def test_solver_in_float64(name, only, x64):
    checked(name, only)


@pytest.mark.parametrize("name", [name for name, case in SOLVERS.items() if not case.thorough])
def test_the_refusal_of_an_unfit_problem_says_who_has_what_it_needs(name):
    with pytest.raises(
        fa.InputError, match=r"needs a problem with .*which object lacks; problems\."
    ):
        fa.run(SOLVERS[name].solver(), object(), jax.random.key(5), rounds=8)
