"""Capabilities: solvers and measures read what they declare, and what is missing is told."""

import inspect
from dataclasses import field
from types import SimpleNamespace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, capabilities, certificates, direct, measures
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.capabilities import (
    Gradients,
    KnownTarget,
    OnTree,
    Prox,
    check_capabilities,
    has,
    needs,
)
from fedjax_admm.capabilities._needs import members
from tests.solvers.conformance import SOLVERS


@pytree_dataclass
class Guarded:
    """An object of which only some members can be read; its methods see whole objects."""

    inner: Any
    readable: frozenset[str] = field(metadata={"static": True})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.readable:
            raise AttributeError(f"{name} is read, but not declared")
        member = getattr(self.inner, name)
        if not inspect.ismethod(member):
            return member
        return lambda *given: member(*(bare(argument) for argument in given))


def bare(thing: Any) -> Any:
    return thing.inner if isinstance(thing, Guarded) else thing


def guarded(thing: Any, wanted: Any, *more: str) -> Guarded:
    names = {name for capability in wanted for name in members(capability)}
    return Guarded(thing, frozenset(names | set(more)))


def declared(solver: Any) -> list[type]:
    parts = (solver, *vars(solver).values())
    return [capability for part in parts for capability in getattr(part, "requires", ())]


def localization(**options: Any) -> Any:
    return fa.problems.localization(np.eye(4, 3), np.ones(4), **options)


# --- what is declared is what is read -------------------------------------------------------------


@pytest.mark.kin(6)
@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_reads_what_it_declares_and_no_more(name):
    case = SOLVERS[name]
    solver, problem = case.solver(), case.problem()
    guard = guarded(problem, declared(solver))
    shape = solver.participants(guard)
    if hasattr(solver, "check"):
        solver.check(guard, 8)

    def one_round(solver, problem, key):
        init_key, turn_key = jax.random.split(key)
        state = solver.init(problem, init_key)
        info = fa.RoundInfo(jnp.int32(0), turn_key, jnp.ones(shape, bool))
        messages = solver.messages(problem, info.active)
        return solver.estimate(solver.step(problem, state, info)), messages

    jax.eval_shape(one_round, solver, guard, jax.random.key(0))
    traffic = solver.traffic(guard)
    assert all(type(size) is int for size in traffic[:4])
    assert all(bits is None or type(bits) is int for bits in traffic[4:])


def test_a_guard_lets_nothing_else_through():
    guard = guarded(localization(), [Gradients])
    assert guard.gradients(jnp.zeros((4, 3))).shape == (4, 3)
    with pytest.raises(AttributeError, match="anchors is read, but not declared"):
        _ = guard.anchors


def nothing_known(problem: Any) -> dict[str, Any]:
    return {}


def a_signal(problem: Any) -> dict[str, Any]:
    return {"truth": jnp.ones(3)}


def a_model_each(problem: Any) -> dict[str, Any]:
    return {"truth": jnp.ones((problem.num_clients, 3))}


# Measure of a state -> a case of the solvers' table on which it works, and what has to be known.
MEASURES = {
    measures.localization_error: ("FSMDM", nothing_known),
    measures.target_regret: ("FSMDM", nothing_known),
    measures.central_signal_error: ("CentralizedSubgradient", a_signal),
    measures.tree_signal_error: ("HFSAD, 2 passes", a_signal),
    measures.personal_error: ("HierarchicalADMM, depth 3, linearised, personal", a_model_each),
    measures.network_error: ("IFCA", a_model_each),
    measures.consensus_error: ("PrivateSubgradient", nothing_known),
    measures.consensus_releases: ("PrivateNetworkedADMM", nothing_known),
    measures.consensus_gap: ("PADMM", nothing_known),
    measures.objective: ("IFCA", nothing_known),
    measures.stationarity: ("FedADMM", nothing_known),
    measures.agreement_residual: ("FedADMM", nothing_known),
    measures.disagreement: ("FedADMM", nothing_known),
    measures.primal_residual: ("FedADMM", nothing_known),
    measures.dual_residual: ("FedADMM", nothing_known),
    measures.optimum_distance: ("PrivateSubgradient", nothing_known),
    measures.accuracy: ("Personal", nothing_known),
    measures.client_accuracy: ("Personal", nothing_known),
    measures.worst_accuracy: ("Personal", nothing_known),
    measures.error_rate: ("Personal", nothing_known),
    measures.rating_error: ("FedMAvg, drawn users", nothing_known),
    measures.fresh_rating_error: ("FedMCADMM", nothing_known),
    measures.augmented_lagrangian: ("FedMCADMM", nothing_known),
    measures.completion_residual: ("FedMCADMM", nothing_known),
    certificates.duality_gap: ("GTVPrimalDual", nothing_known),
    certificates.certified_gap: ("GTVPrimalDual", nothing_known),
    certificates.relative_gap: ("GTVPrimalDual", nothing_known),
    certificates.optimality_residual: ("GTVPrimalDual", nothing_known),
}


def takes_a_state(function: Any) -> bool:
    """Whether it is a measure as it is; one that asks for more becomes one by `partial`."""
    if not callable(function) or isinstance(function, type):
        return False
    parameters = inspect.signature(function).parameters.values()
    asked = [each.name for each in parameters if each.default is each.empty]
    return asked == ["solver", "problem", "state"]


def test_every_measure_of_a_state_is_in_the_table():
    rooms = (measures, certificates)
    public = [getattr(room, name) for room in rooms for name in room.__all__]
    assert {function for function in public if takes_a_state(function)} == set(MEASURES)


@pytest.mark.thorough
@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.__name__)
def test_a_measure_reads_what_it_declares_and_no_more(measure):
    name, truth = MEASURES[measure]
    solver, problem = SOLVERS[name].solver(), SOLVERS[name].problem()
    known = truth(problem)
    if known:
        problem = type(problem)(**{**vars(problem), **known})
    wanted = measure.needs
    assert measure.requires == wanted.problem
    state = solver.init(problem, jax.random.key(0))
    guards = (
        guarded(solver, wanted.solver, "estimate", "step"),
        guarded(problem, wanted.problem),
        guarded(state, wanted.state),
    )
    jax.eval_shape(lambda *given: measure(*given), *guards)


def test_every_direct_method_declares_what_it_needs():
    public = [getattr(direct, name) for name in direct.__all__]
    methods = [each for each in public if "problem" in inspect.signature(each).parameters]
    assert len(methods) > 2
    assert all(function.requires for function in methods)
    with pytest.raises(InputError, match=r"^pooled_model needs a problem with"):
        direct.pooled_model(localization())


# --- sentences ------------------------------------------------------------------------------------


def test_members_are_those_of_the_protocol_and_of_its_bases():
    assert members(OnTree) == ("num_clients", "start", "tree")
    assert members(Prox) == ("prox_memory", "prox")


PUBLIC = [getattr(capabilities, name) for name in capabilities.__all__]
CAPABILITIES = [value for value in PUBLIC if isinstance(value, type)]


@pytest.mark.parametrize("kind", CAPABILITIES, ids=lambda kind: kind.__name__)
def test_every_capability_says_what_it_means(kind):
    assert inspect.getdoc(kind)
    for member in members(kind):
        method = getattr(kind, member, None)
        assert not inspect.isfunction(method) or inspect.getdoc(method)


def test_the_sentence_groups_by_capability_and_finds_who_has_all():
    solver = fa.solvers.fsmdm()
    with pytest.raises(InputError) as caught:
        check_capabilities(solver, SOLVERS["IFCA"].problem())
    assert str(caught.value) == (
        "FSMDM needs a problem with prox_convex_part and prox_concave_part (DifferenceOfConvex), "
        "which Networked lacks; problems.federated and localization have them."
    )


def test_data_that_are_none_are_missing():
    with pytest.raises(InputError) as caught:
        measures.localization_error(fa.solvers.fsmdm(), localization(), None)
    assert str(caught.value) == (
        "localization_error needs a problem with target (KnownTarget), but it is None in this "
        "Localization; give it to what builds the problem."
    )


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        (
            lambda: measures.consensus_error(fa.solvers.fsmdm(), SOLVERS["PADMM"].problem(), None),
            "consensus_error needs a solver with unprotected (Releasing), which FSMDM lacks; "
            "solvers.p_admm, private_networked_admm and private_subgradient have it.",
        ),
        (
            lambda: measures.tree_signal_error(None, SimpleNamespace(truth=jnp.ones(3)), None),
            "tree_signal_error needs a state with root, servers and clients (TreeState), which "
            "None lacks; those of solvers.consensus_admm, hfsad and hierarchical_admm have them.",
        ),
        (
            lambda: fa.solvers.hfsad(localization()),
            "hfsad needs a problem with tree (OnTree), which Localization lacks; "
            "problems.federated, phase_retrieval and robust_regression have it.",
        ),
    ],
)
def test_mistakes_get_a_sentence(mistake, sentence):
    with pytest.raises(InputError) as caught:
        mistake()
    assert str(caught.value) == sentence


def test_a_run_checks_its_measure_and_residual_before_tracing():
    problem, solver, key = localization(), fa.solvers.fsmdm(), jax.random.key(0)
    traced = []

    @needs(KnownTarget)
    def watch(solver, problem, state):
        traced.append(state)
        return {"error": jnp.zeros(())}

    with pytest.raises(InputError, match=r"^watch needs a problem with target"):
        fa.run(solver, problem, key, rounds=1, measure=watch)
    with pytest.raises(InputError, match=r"^duality_gap needs a problem with"):
        fa.run_until(
            solver,
            problem,
            key,
            residual=certificates.gap_within(1.0),
            tolerance=0.1,
            max_rounds=10,
        )
    assert not traced
    fa.run(solver, localization(target=np.ones(3)), key, rounds=1, measure=watch)
    assert traced


def test_a_capability_and_a_problem_of_ones_own():
    class Loud(Protocol):
        volume: jax.Array

        def shout(self) -> jax.Array: ...

    solver = SimpleNamespace(requires=(Loud,))
    check_capabilities(solver, SimpleNamespace(volume=1.0, shout=print))
    with pytest.raises(InputError) as caught:
        check_capabilities(solver, SimpleNamespace(volume=1.0))
    assert str(caught.value) == (
        "SimpleNamespace needs a problem with shout (Loud), which SimpleNamespace lacks."
    )


def test_a_property_is_not_computed_to_see_that_it_is_there():
    class Dear:
        @property
        def target(self):
            raise AssertionError

    assert has(Dear(), KnownTarget)
