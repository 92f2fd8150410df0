"""Runs, graphs and trees are drawn; runs, trials and results become tables."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import _drawings
from fedjax_admm._drawings import graph_positions
from fedjax_admm.trials import Results, monte_carlo, summarize


def problem():
    return fa.problems.draw_localization(jax.random.key(0), fa.problems.cauchy_noise(1.0))


def measured(key=None):
    key = jax.random.key(1) if key is None else key
    error = fa.measures.localization_error
    return fa.run(fa.solvers.fsmdm(), problem(), key, rounds=8, measure=error)


def batch():
    return jax.vmap(measured)(jax.random.split(jax.random.key(1), 5))


def test_a_run_is_drawn_and_tabled():
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    run, runs = measured(), batch()
    axes = run.plot()
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), run.trace["error"])
    assert (axes.get_yscale(), axes.get_xlabel()) == ("log", "round")
    median = np.median(runs.trace["error"], 0)
    np.testing.assert_allclose(runs.plot("error").lines[0].get_ydata(), median, rtol=1e-6)
    frame = runs.to_dataframe()
    assert list(frame.columns) == ["run", "round", "error", "failure", "messages"]
    np.testing.assert_array_equal(frame["error"], np.ravel(runs.trace["error"]))
    assert run.to_xarray()["error"].dims == ("round",)
    assert runs.to_xarray()["error"].dims == ("run", "round")
    with pytest.raises(fa.InputError, match="metric must be one of what the run measured, error"):
        run.plot("eror")


def test_several_runs_are_drawn_into_the_same_axes_and_told_apart():
    run, runs = measured(), batch()
    axes = run.plot(label="first")
    assert runs.plot(label="second", axes=axes) is axes
    run.plot(axes=axes)
    assert [line.get_label() for line in axes.lines] == [
        *("first", "second (median, 10 to 90 %)", "error"),
    ]
    assert len({line.get_color() for line in axes.lines}) == 3
    assert len({line.get_linestyle() for line in axes.lines}) == 3
    told = [text.get_text() for text in axes.get_legend().get_texts()]
    assert told == ["first", "second (median, 10 to 90 %)"]
    # What is not positive cannot stand on a logarithmic axis.
    assert axes.get_yscale() == "log"
    trace = {"round": jnp.array([1, 2]), "error": jnp.array([0.0, 2.0])}
    measured()._replace(trace=trace).plot(axes=axes, label="with a zero")
    assert axes.get_yscale() == "linear"


def test_runs_that_stop_by_themselves_keep_their_rounds():
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    trace = {"round": jnp.array([[7], [9]]), "residual": jnp.array([[0.1], [0.2]])}
    runs = measured()._replace(trace=trace)
    assert runs.to_dataframe()["round"].tolist() == [7, 9]
    assert runs.to_xarray()["round"].dims == ("run", "record")
    with pytest.raises(fa.InputError, match="the runs have recorded different ones"):
        runs.plot("residual")


def test_a_run_that_failed_is_left_out_of_the_median_and_told():
    errors = jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, jnp.nan]])
    trace = {"round": jnp.tile(jnp.array([1, 2]), (3, 1)), "error": errors}
    axes = measured()._replace(trace=trace).plot()
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [3, 3])
    assert axes.lines[0].get_label() == "median of what is finite (1 of 3 runs are not)"
    edge = axes.collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([edge.min(), edge.max()], [1.4, 4.6])


def test_graphs_and_trees_are_drawn():
    graph = fa.graphs.chain(6)
    axes = graph.plot(jnp.arange(6.0), positions=jnp.arange(12.0).reshape(6, 2))
    assert len(axes.collections[0].get_segments()) == 5
    np.testing.assert_array_equal(axes.collections[1].get_array(), np.arange(6.0))
    # A chain's second eigenvector runs along it.
    along = np.asarray(graph.plot().collections[1].get_offsets())[:, 0]
    assert np.all(np.diff(along) > 0) or np.all(np.diff(along) < 0)
    with pytest.raises(fa.InputError, match="positions must have shape"):
        graph.plot(positions=jnp.ones((6, 3)))
    tree = fa.trees.from_counts([[2, 1], [3]])
    axes = tree.plot()
    assert len(axes.collections[0].get_segments()) == tree.num_links
    servers, clients = (np.asarray(each.get_offsets()) for each in axes.collections[1:])
    assert set(clients[:, 1]) == {-3.0}
    assert sorted(clients[:, 0]) == [*range(6)]
    assert servers[0, 1] == 0


def placed(number, edges):
    heads, tails = np.asarray(edges).T
    return graph_positions(heads, tails, np.ones(len(edges)), number)


def test_a_layout_keeps_components_apart_and_neighbours_together():
    edges = [(i, j) for k in (0, 6) for i in range(k, k + 6) for j in range(i + 1, k + 6)]
    places = placed(15, [*edges, (12, 13)])
    assert np.isfinite(places).all()
    assert len(np.unique(places.round(6), axis=0)) == 15
    boxes = [(places[part].min(0), places[part].max(0)) for part in (range(6), range(6, 12))]
    assert (boxes[0][1] < boxes[1][0]).any() or (boxes[1][1] < boxes[0][0]).any()
    assert places[14, 1] < places[:14, 1].min()
    path = [(i, i + 1) for i in range(29)]
    steps = np.linalg.norm(np.diff(placed(30, path), axis=0), axis=1)
    assert steps.max() < 0.3 * np.linalg.norm(np.ptp(placed(30, path), axis=0))


def test_a_large_graph_is_laid_out_without_a_square_matrix(monkeypatch):
    monkeypatch.setattr(_drawings, "DENSE", 0)
    steps = np.diff(placed(12, [(i, i + 1) for i in range(11)])[:, 0])
    assert np.all(steps > 0) or np.all(steps < 0)


def test_trials_and_summaries_are_tabled():
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    trials = monte_carlo(
        lambda key: (lambda drawn: {"a": drawn[0], "b": drawn[1:]})(jax.random.normal(key, (3,))),
        jax.random.key(0),
        4,
        progress=False,
    )
    frame = trials.to_dataframe()
    np.testing.assert_array_equal(frame["b_1"], trials.arrays["b"][:, 1])
    assert trials.to_xarray()["b"].dims == ("trial", "b_0")
    table = summarize(trials.arrays["b"], 0)
    np.testing.assert_array_equal(table.to_dataframe()["median"], table.median)
    assert table.to_xarray()["mean"].shape == (2,)


def test_results_are_tabled_with_their_axes():
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    errors = np.arange(12.0).reshape(2, 3, 2)
    config = {
        "experiment": "e",
        "title": "t",
        "parameter": "p",
        "parameter_label": "p (m)",
        "seed": 1,
        "methods": ["A", "B"],
        "metrics": {"error": "error (m)"},
    }
    results = Results(config, np.array([1.0, 2.0]), np.array([5, 10]), {"A/error": errors}, {})
    frame = results.to_dataframe()
    kept = frame[(frame.p == 2) & (frame.trial == 1) & (frame["round"] == 10)]
    assert kept.value.tolist() == [errors[1, 1, 1]]
    found = results.to_xarray()["error"]
    assert found.dims == ("method", "sweep", "trial", "round")
    np.testing.assert_array_equal(found[0], errors)
    assert np.isnan(found[1]).all()
    assert found.attrs["long_name"] == "error (m)"
    assert results.to_xarray()["sweep"].attrs["long_name"] == "p (m)"
    assert results.to_dataframe(summary=True).shape == (4, 13)
    assert "12" not in repr(results)  # arrays are left out
