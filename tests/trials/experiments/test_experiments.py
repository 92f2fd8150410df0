"""Every registered experiment, small: runs, shapes, pairing, traffic, settings, figure."""

import jax
import jax.numpy as jnp
import matplotlib.image
import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials.experiments import all_experiments, find
from fedjax_admm.trials.running import Request, run_experiment
from tests.memory import drop_programs

NAMES = list(all_experiments())
NETWORKED = [name for name in NAMES if name.startswith("nfl")]
COMPLETION = [name for name in NAMES if name.startswith("fedmc")]
PRIVATE = [name for name in NAMES if name.startswith("zcdp")]
PEERS = [name for name in NAMES if name.endswith("-benchmark")]
MESSAGES = [name for name in NAMES if name.startswith("messages")]
# Their many programs take a minute to compile: `test_faults`, `test_messages_compression`,
# `test_peers` and `tables/test_digits` run some of their methods. `test_coverage` runs the one of
# regions, whose methods share a fit.
ELSEWHERE = (
    *("messages-byzantine", "messages-compression", "messages-delay", "nfl-digits"),
    *("federated-benchmark", "nonsmooth-benchmark", "localization-coverage"),
)
# The problem, the methods and the panels of another experiment, with another setting swept.
KIN = (
    *("zcdp-equal-speed", "zcdp-curves", "zcdp-heterogeneous", "zcdp-clipping"),
    *("zcdp-tau", "nfl-sbm-noise", "nfl-star", "hfsad-passes", "hfsad-variants"),
    *("fedmc-rank", "fedmc-inner-steps", "fedmc-regularisation", "localization-dropouts"),
)
LOCALIZATION = [name for name in NAMES if name.startswith("fsmdm")]
PHASE = [name for name in NAMES if name.startswith("hfsad") and name != "hfsad-personalisation"]
TRIALS, ROUNDS, CLIENTS, DIM = 3, 20, 21, 3
CLUSTERS, PER_CLUSTER, SIGNAL = 2, 4, 6
SMALL = {
    "hfsad-personalisation": {
        "samples": "5,8",
        "clients_per_server": "3",
        "strangers": "1",
        "dim": "4",
        "distinct": "2",
    },
    "hfsad-variants": {"exact_box": "1"},
    "nfl-sbm-noiseless": {"nodes": "8", "p_out": "0.05,0.3"},
    "nfl-sbm-noise": {"nodes": "8", "p_out": "0.05,0.3"},
    "nfl-table1": {"nodes": "6", "dim": "8", "samples": "3"},
    "nfl-chain": {"nodes": "8", "weak": "0.1,0.9"},
    "nfl-star": {"nodes": "6", "factor": "0.5,2"},
    "nfl-weather": {"threshold": "2,5", "data": "synthetic"},
    "nfl-digits": {"data": "synthetic"},
}
RATINGS = {"shape": "40x30x400", "data": "synthetic", "clients": "4", "sampled": "2"}
SMALL |= {
    # FedMAvg's constants do not see the weight: it must be small beside 30 items of size 2e-4.
    "fedmc-comparison": {**RATINGS, "rank": "2", "multiples": "0.3,3", "weight": "1e-9"},
    "fedmc-inner-steps": {**RATINGS, "rank": "2", "steps": "2,5"},
    "fedmc-regularisation": {**RATINGS, "rank": "2", "weight": "1e-6,1e-3"},
    "fedmc-rank": {**RATINGS, "ranks": "1,2", "weight": "1e-9"},
}
NETWORK = {"clients": "6", "edges": "8", "samples": "9", "dim": "3"}
SMALL |= dict.fromkeys(PRIVATE, NETWORK)
# So few releases leave no room for the epsilons of a classical mechanism, which are at most 1.
SMALL["zcdp-tradeoff"] = {**NETWORK, "epsilon": "1,8"}
SIZES = {
    "clusters": str(CLUSTERS),
    "clients_per_cluster": str(PER_CLUSTER),
    "dim": str(SIGNAL),
}
for _name in PHASE:
    SMALL[_name] = SIZES | SMALL.get(_name, {})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run an experiment at its smallest, once for all tests."""
    kept = {}

    def finish(name):
        if name not in kept:
            drop_programs()  # no two experiments share any
            out = tmp_path_factory.mktemp(name) / "run"
            settings = SMALL.get(name, {})
            request = Request(trials=TRIALS, rounds=ROUNDS, batch=TRIALS, settings=settings)
            kept[name] = run_experiment(find(name), request, out, resume=False, progress=False), out
        return kept[name]

    return finish


FIRST = "fsmdm-outliers"  # what is run of it stands for all by default


def others_are_thorough(name, *others):
    later = pytest.mark.slow if name in KIN else pytest.mark.thorough
    return pytest.param(name, *others, marks=[] if name == FIRST else [later])


@pytest.fixture(params=[others_are_thorough(name) for name in NAMES if name not in ELSEWHERE])
def outcome(request, finished):
    return finished(request.param)


def error_of(name):
    """Return what the error of an experiment is called: there are two where messages have noise."""
    return "unprotected_error" if name in PRIVATE else "error"


def test_arrays_are_complete_finite_and_float32(outcome):
    results, _ = outcome
    shape = (len(results.sweep), TRIALS, len(results.rounds))
    assert results.rounds[-1] == ROUNDS
    for method in results.methods:
        error = results.values(method, error_of(results.config["experiment"]))
        assert error.shape == shape
        assert error.dtype == np.float32
        assert np.isfinite(error).all()
        assert (error >= 0).all()
        if results.has(method, "failure"):
            np.testing.assert_array_equal(results.values(method, "failure"), error > 3)
        assert results.nonfinite[method].shape == shape[:2]
        assert not results.nonfinite[method].any()


def test_the_figure_is_drawn(outcome):
    results, out = outcome
    image = matplotlib.image.imread(out / "figure.png")
    height, width, _ = image.shape
    assert width > height > 400
    ink = (image[..., :3] < 0.9).any(-1)
    assert 0.02 < ink.mean() < 0.7
    border = np.concatenate([ink[0], ink[-1], ink[:, 0], ink[:, -1]])
    assert not border.any()  # nothing is cut off
    name = results.config["experiment"]
    figure = find(name).figure(results)
    shown = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    swept = name == "fsmdm-asynchrony"
    names = [f"{v:g}" for v in results.sweep] if swept else results.methods
    if name not in [
        *NETWORKED,
        *COMPLETION,
        *PRIVATE,
        "hfsad-variants",
    ]:  # these have a panel, or a row, per family or method
        assert len(shown) == len(names)
    for axes in figure.axes:
        assert axes.lines
        assert axes.get_title()


def test_methods_differ(outcome):
    results, _ = outcome
    metric = error_of(results.config["experiment"])
    last = {m: results.values(m, metric)[..., -1].tobytes() for m in results.methods}
    last.pop("no box", None)  # where the box binds nowhere, it changes nothing
    last.pop("exact box", None)
    assert len(set(last.values())) == len(last)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_and_words_are_sane(name):
    experiment = find(name)
    assert experiment.name == name
    few = {
        **dict.fromkeys(NETWORKED, 5),
        **dict.fromkeys(COMPLETION, 3),
        **dict.fromkeys(PRIVATE, 50),
        **dict.fromkeys(PEERS, 20),
    }
    assert experiment.trials >= few.get(name, 100)
    assert 1 <= experiment.quick["trials"] <= 100
    assert 1 <= experiment.quick["rounds"] <= experiment.rounds
    assert "\n" not in experiment.title
    authors = {
        **dict.fromkeys(NETWORKED, "SarcheshmehPour"),
        **dict.fromkeys(COMPLETION, "Hytla"),
        **dict.fromkeys(PRIVATE, "Gauthier"),
        **dict.fromkeys(PEERS + MESSAGES, "names its paper"),
        "localization-coverage": "Jordan",
    }
    assert authors.get(name, "Mirzaeifard") in experiment.paper
    assert len(experiment.findings) > 200
    assert experiment.findings.endswith(".")
    regions = name == "localization-coverage"  # they have a size, and send nothing that counts
    measured = {"radius_90"} if regions else {error_of(name), "numbers_up", "numbers_down"}
    assert measured <= set(experiment.labels())


EVERYBODY = [FIRST, "fsmdm-cauchy", "fsmdm-convergence"]


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", EVERYBODY)
def test_traffic_by_hand(finished, name):
    results, _ = finished(name)
    rounds = np.broadcast_to(results.rounds, (len(results.sweep), TRIALS, len(results.rounds)))
    for method in results.methods:
        if method == "centralised":
            assert not results.has(method, "numbers_up")
            assert not results.has(method, "numbers_down")
            continue
        up, down = results.values(method, "numbers_up"), results.values(method, "numbers_down")
        sent = DIM + 1 if method.startswith("FSMDM") else DIM  # FSMDM sends its weight too
        np.testing.assert_array_equal(up, rounds * CLIENTS * sent)
        np.testing.assert_array_equal(down, rounds * CLIENTS * DIM)


@pytest.mark.thorough
def test_absent_clients_send_nothing(finished):
    results, _ = finished("fsmdm-asynchrony")
    for method in results.methods:
        size = DIM + 1 if method.startswith("FSMDM") else DIM
        up, down = results.values(method, "numbers_up"), results.values(method, "numbers_down")
        np.testing.assert_array_equal(up % size, 0)
        np.testing.assert_array_equal(up // size, down // DIM)
        share = up[..., -1].mean(1) / (size * CLIENTS * ROUNDS)
        # 3 x 21 x 20 draws: four standard deviations are below 0.06.
        np.testing.assert_allclose(share, results.sweep, atol=0.06)
    # All methods see the same absences.
    first, *others = (results.values(m, "numbers_down") for m in results.methods)
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.kin(1)
@pytest.mark.parametrize("name", LOCALIZATION)
def test_all_swept_values_share_the_geometry(name):
    experiment = find(name)
    settings = experiment.defaults()
    low, high = (
        experiment.problem(settings, jnp.float32(value), jax.random.key(1)) for value in (0.1, 0.9)
    )
    np.testing.assert_array_equal(low.anchors, high.anchors)
    np.testing.assert_array_equal(low.target, high.target)
    exact = np.linalg.norm(np.asarray(low.anchors) - np.asarray(low.target), axis=1)
    far = [np.abs(np.asarray(problem.distances) - exact) for problem in (low, high)]
    if name in ("fsmdm-asynchrony", "fsmdm-omega"):  # the noise is the same: the method varies
        np.testing.assert_array_equal(*far)
    else:  # the same draws, more of them or larger
        assert (far[0] <= far[1] + 1e-4).all()
        assert far[0].sum() < far[1].sum()


@pytest.mark.thorough
def test_settings_reach_the_problem_and_the_methods(finished, tmp_path):
    usual, _ = finished("fsmdm-outliers")
    settings = {"clients": "6", "probability": "0.1,0.2", "active": "0.5", "omega": "5"}
    request = Request(trials=2, rounds=10, batch=2, settings=settings)
    experiment = find("fsmdm-outliers")
    results = run_experiment(experiment, request, tmp_path / "run", resume=False, progress=False)
    assert results.config["settings"] == {
        **usual.config["settings"],
        "clients": 6,
        "probability": [0.1, 0.2],
        "active": 0.5,
        "omega": 5.0,
    }
    down = results.values("FSMDM", "numbers_down")[..., -1]
    assert (down < 6 * DIM * 10).all()
    assert (down % DIM == 0).all()
    # Whatever the swept value is: equal absences, equal numbers.
    for name, values in results.arrays.items():
        assert values.shape == (2, 2, 10)
        if "numbers" in name:
            np.testing.assert_array_equal(values[0], values[1])


# Phase retrieval and personal models over trees


def messages_by_hand(rounds, per_round):
    """Return messages and numbers at each record, given the messages of a round."""
    sent = rounds * per_round
    return sent * (SIGNAL + 1), sent * SIGNAL


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["hfsad-passes", "hfsad-comparison", "hfsad-depth"])
def test_traffic_over_a_tree_by_hand(finished, name):
    results, _ = finished(name)
    rounds = np.broadcast_to(results.rounds, (len(results.sweep), TRIALS, len(results.rounds)))
    clients = CLUSTERS * PER_CLUSTER
    for method in results.methods:
        up, down = results.values(method, "numbers_up"), results.values(method, "numbers_down")
        if method.startswith("Subgradient"):  # one sum up and one model down each link
            np.testing.assert_array_equal(up, rounds * (clients + CLUSTERS) * SIGNAL)
            np.testing.assert_array_equal(down, up)
            continue
        passes = int(method.split()[1]) if method.startswith("HFSAD") else 10
        # The cloud listens once per round; edge servers listen in every pass.
        per_round = {
            "depth 1, all clients at the cloud": clients,
            "depth 3, two regions of edge servers": (clients + CLUSTERS) * passes + 2,
        }.get(method, clients * passes + CLUSTERS)
        hand_up, hand_down = messages_by_hand(rounds, per_round)
        np.testing.assert_array_equal(up, hand_up)
        np.testing.assert_array_equal(down, hand_down)
        np.testing.assert_allclose(results.values(method, "passes"), rounds * passes)


@pytest.mark.thorough
def test_both_ratios_share_the_signal_and_the_vectors():
    experiment = find("hfsad-comparison")
    low, high = (
        experiment.problem(experiment.defaults(), jnp.float32(snr), jax.random.key(1))
        for snr in (-20.0, 20.0)
    )
    np.testing.assert_array_equal(low.x, high.x)
    np.testing.assert_array_equal(low.truth, high.truth)
    exact = np.square(np.asarray(low.x, float) @ np.asarray(low.truth, float))
    ratio = (np.asarray(low.y) - exact) / (np.asarray(high.y) - exact)
    assert np.median(ratio) == pytest.approx(100, rel=1e-2)


@pytest.mark.kin(4)
@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("hfsad-depth", {"start": "far"}, "start must be one of 'spectral', 'random' and 'near'"),
        (
            "nfl-chain",
            {"variant": "mine"},
            "variant must be one of 'paper' and 'code', but it is 'mine'",
        ),
        ("fedmc-comparison", {**RATINGS, "multiples": "-1"}, "multiples must be greater than 0"),
    ],
)
def test_a_setting_that_does_not_fit_is_told(tmp_path, name, given, words):
    request = Request(trials=2, rounds=2, settings=given)
    with pytest.raises(InputError, match=words):
        run_experiment(find(name), request, tmp_path / "run", resume=False, progress=False)


# Ratings


@pytest.mark.thorough
def test_traffic_of_factors_by_hand(finished):
    results, _ = finished("fedmc-comparison")
    rounds = np.broadcast_to(results.rounds, (1, TRIALS, len(results.rounds)))
    clients, drawn, size = 4, 2, 30 * 2
    by_hand = {
        "FedMC-ADMM, tuned beta": (
            clients * size + 2 * drawn * rounds * size,
            drawn * rounds * size,
        ),
        "FedMAvg, fair": (drawn * rounds * size, clients * rounds * size),
        "FedMAvg, fair, drawn clients only": (drawn * rounds * size, drawn * rounds * size),
    }
    for method, (up, down) in by_hand.items():
        np.testing.assert_array_equal(results.values(method, "numbers_up"), up)
        np.testing.assert_array_equal(results.values(method, "numbers_down"), down)
    for method in ("user and item biases", "ALS on all data in one place"):
        assert not results.has(method, "numbers_up")


@pytest.mark.thorough
def test_beta_is_chosen_from_the_grid_and_once_per_trial(finished):
    results, _ = finished("fedmc-comparison")
    chosen = results.values("FedMC-ADMM, tuned beta", "beta")
    unit = 1e5 * (40 / 943) * (100 / 4) ** 2
    nearest = np.min(np.abs(chosen[..., None] / (unit * np.array([0.3, 3.0])) - 1), -1)
    assert nearest.max() < 1e-5
    assert (chosen == chosen[..., :1]).all()


# Figures of unusual results
