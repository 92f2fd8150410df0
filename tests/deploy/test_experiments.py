"""Methods of experiments on real clients: each is deployed, or refused in one sentence."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import deploy
from fedjax_admm.trials import experiments

NAMES = tuple(each.name for each in experiments.headlines())
# A method of each kind of solver, of which six rounds are compared with the simulation.
FAMILIES = {
    "fsmdm-outliers": "FSMDM tuned",
    "hfsad-depth": "depth 3, two regions of edge servers",
    "hfsad-personalisation": "MCP links",
    "nfl-star": "nLasso",
    "nfl-table1": "GTV nLasso, ratio by rule",
    "federated-benchmark": "logistic: FedADMM",
    "messages-compression": "SCAFFOLD: QSGD",
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_every_method_is_deployed_or_refused_in_a_sentence(name):
    experiment, drawn = experiments.find(name), []

    def problem(*given):
        if not drawn:
            drawn.append(experiment.problem(*given))
        return drawn[0]

    with jax.enable_x64(experiment.x64):
        settings = {**experiment.defaults(), experiments.ROUNDS: experiment.rounds}
        value = jnp.asarray(experiment.sweep.values, float)[0]
        for method in experiment.methods(settings, value):
            try:
                study = experiments.study(replace(experiment, problem=problem), method)
                study.server()
                study.client(0)
            except fa.InputError:
                continue


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", FAMILIES)
def test_six_rounds_are_those_of_the_simulation(name):
    study = experiments.study(experiments.find(name), FAMILIES[name], rounds=6)
    problem = study.everybody()
    ended = deploy.in_process(study.solver, problem, study.key, rounds=6)
    state = fa.run(study.solver, problem, study.key, rounds=6).state.solver
    if isinstance(ended.server, deploy.Relay):
        simulated, models = study.solver.estimate(state), [node.estimate for node in ended.clients]
    else:
        simulated, models = ended.server.estimate_of(state), ended.server.estimate
    np.testing.assert_allclose(models, simulated, rtol=1e-4, atol=1e-4 * np.max(np.abs(simulated)))
