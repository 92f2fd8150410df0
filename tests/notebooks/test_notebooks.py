"""The notebooks run from top to bottom, and what is stored of them is whole and tidy."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TRIALS = 20
FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

# What must hold after the last cell, in the notebook's own variables.
CHECKS = {
    "compare_methods": """
        assert TRIALS == {trials}
        assert paired.standard_error < unpaired_error / 2
        for name, (_, grid) in FAMILIES.items():
            assert grid[0] < best[name] < grid[-1] and np.all(np.isfinite(scores[name]))
        middle = {{name: np.median(values) for name, values in judged.items()}}
        assert middle["FSMDM chosen"] < middle["subgradient chosen"]
        assert middle["subgradient chosen"] < middle["subgradient 1/√k"] / 10
        assert held[0] < 0.9 and np.isclose(running[-1], overall.mean)
        assert np.all(pair.median < 0) and (folder / "summary.csv").is_file()
    """,
    "hierarchy": """
        assert TRIALS == {trials}
        assert [tree.depth for tree in shapes.values()] == [1, 2, 3]
        assert run.trace["error"][-1] < 1e-3 < 0.3 < run.trace["error"][0]
        ends = {{name: arrays[f"{{name}}/error"][:, -1].mean() for name in WAYS}}
        assert ends["edge servers, 10 passes"] < ends["star, 1 pass"] / 3
        assert ends["star, 1 pass"] < ends["edge servers, 1 pass"]

        last = {{name: found[f"{{name}}/error"][0, -1] for name in LINKS}}
        assert last["MCP links"] < last["l1 links"] < last["no links"]
        agreement = found["MCP links/agreement"].mean(0)
        assert agreement[0] < 0.2 < 0.95 < agreement[-1] <= 1
        assert pair.mean[0] > 0 > pair.mean[-1]
    """,
    "kernels": """
        assert PROBLEMS == 10 * {trials}
        # Between its jumps the signal found is constant to the last bit.
        found = signals[best]
        assert int(jnp.sum(jnp.diff(found) != 0)) == int(jumps[best]) < 30
        assert errors[best] < 0.1 < errors[0]

        assert chosen.tolist() == [3, 7, 11, 15]
        assert jnp.all(lengths["plain"] > 0.1) and loss(trained["proximal"]) < 0.1

        assert jnp.max(first_slope) < 0 and jnp.all(learnt >= 0)
        assert misfit(learnt, 1) < 0.95 * jnp.min(by_hand)
    """,
    "localization": """
        assert TRIALS == {trials}
        assert errors[-1] < 0.1 < 1 < shift and int(outliers.sum()) == 3
        middle = {{name: np.median(values, axis=0) for name, values in distances.items()}}
        assert middle["squares"][0] < 1e-3 and np.all(middle["squares"][1:] > 1)
        assert np.all(middle["centralised"][:4] < 1e-3)
        assert np.all(pairs["FSMDM published"].smaller[1:] > 0.7)
        assert np.flatnonzero(suspected).tolist() == [7]
        for answer in (position, judged):
            np.testing.assert_allclose(answer, [6, 9], atol=0.1)
    """,
    "networks": """
        assert TRIALS == {trials}
        # The certificate bounds what is left, down to nothing, and everybody finds its group.
        gap = np.asarray(certified.trace["gap"])
        assert np.all(gap >= above - 1e-9) and gap[-1] < 1e-8 * gap[0]
        assert np.linalg.norm(certified.estimate - truth, axis=1).max() < 1

        assert table.mean[best] < min(table.mean[0], table.mean[-1]) / 3
        assert table.mean[best] < 1.5 * np.mean(errors["told the groups"])
        # Promises are kept, some are made, and the bound holds wherever models are equal.
        assert any(row[1] for row in rows) and all(row[2] for row in rows if row[1])
        assert all(row[3] <= row[4] for row in rows if row[2])

        coupled_error = held_out["GTV"].mean(0).min()
        assert coupled_error < held_out["every station alone"].mean() - 0.3
        assert coupled_error < held_out["one model for all"].mean()
        assert np.mean(scores["GTV"]) < np.mean(scores["one model for all"]) + 0.1
    """,
    "own_problem": """
        assert TRIALS == {trials}
        # FedAvg fluctuates; the others end at the same point.
        ends = {{name: model["slope"] for name, model in found.items()}}
        for name in ("FedADMM", "FedDR", "heavy ball"):
            np.testing.assert_allclose(ends[name], ends["SCAFFOLD"], atol=1e-4)
        assert np.max(np.abs(ends["FedAvg, 5 local steps"] - ends["SCAFFOLD"])) > 0.01

        # The dead zone holds one slope at its edge, and the best of forty is inside the grid.
        assert np.isclose(run.estimate["slope"][2], 0.5)
        assert halves[0] < best < halves[-1] and np.all(np.isfinite(objectives))
        lines = Path("mine", "summary.csv").read_text().splitlines()
        assert sum(line.startswith("my_experiment,FedADMM,spread,2,200,") for line in lines) == 3
    """,
    "paths": """
        assert abs(found.scale - 1.05) < 0.02 and abs(found.offsets[1] - 1.2) < 0.5
        assert np.array_equal(rejected, wrong) and np.median(error) < 0.2
        assert medians["path"] < medians["soft l1, corrected"] < medians["soft l1, as measured"]
        assert tracked[16] < tracked[4] < tracked[1]
    """,
    "privacy": """
        assert TRIALS == {trials}
        # Every accounting keeps its promise, and that of the plan wastes least.
        costs = [each.exact_epsilon for each in plans.values()]
        assert max(costs) == plan.exact_epsilon < 4.0

        # Who was absent has spent less than was planned.
        assert 0 < counts.min() <= counts.max() < ROUNDS
        assert 0 < ledger.exact_epsilon.max() < plan.exact_epsilon and not ledger.label
        trace = run.trace["released_error"]
        assert trace[-1] < trace[0] / 20
        try:
            fa.run(admm(8.0, setting), problem, key, rounds=ROUNDS, participation=some)
        except fa.InputError as told:
            assert "once" in str(told)
        else:
            raise AssertionError("a key served twice")

        for values in errors.values():
            assert values.shape == (TRIALS, len(EPSILONS))
            assert np.all(np.diff(np.median(values, 0)) < 0)
    """,
    "quickstart": """
        assert TRIALS == {trials}
        ends = {{name: float(run.trace["stationarity"][-1]) for name, run in runs.items()}}
        assert ends["FedAvg"] > 0.01 and max(ends["FedADMM"], ends["SCAFFOLD"]) < 1e-5
        slopes = {{name: run.estimate["slope"] for name, run in runs.items()}}
        np.testing.assert_allclose(slopes["FedADMM"], slopes["SCAFFOLD"], atol=1e-4)

        assert pair.median < 0 and pair.trials == TRIALS
        assert powers[0] < best < powers[-1] and median[0] > 5 * median.min()

        assert jnp.flatnonzero(found["MCP"]).tolist() == jnp.flatnonzero(signal).tolist()
        assert jnp.max(jnp.abs(found["MCP"] - signal)) < 0.05
        assert jnp.max(jnp.abs(found["l1"] - signal)) > 0.1
    """,
    "ratings": """
        assert ROUNDS == 4 * {trials}
        ladder = ["all in one place", "two biases", "mean of the film", "mean of all"]
        assert np.all(np.diff([floors[name] for name in ladder]) > 0)
        assert search.best.beta == betas[np.argmin(search.scores)]
        errors = np.asarray(runs["FedMC-ADMM, chosen beta"].trace["error"])
        assert errors[-1] < errors[0] < floors["mean of all"]

        # What is recommended is new to the user, and judged by the ratings that were held out.
        assert len(ranked) == 6 and not set(ranked) & set(own)
        assert np.all(chosen.mean()[1:] > chosen["at random"].mean())
    """,
    "schedules": """
        assert TRIALS == {trials}
        assert found.shape == (9, 9) and found.min() < 0.6 * found.max()
        assert np.isclose(error_at(start, delay, new_keys[0]), ours[0], rtol=1e-2)
        assert pair.mean < pair.standard_error
    """,
    "learnt_schedules": """
        assert TRIALS == {trials}
        for name in fresh:
            assert np.mean(fresh[name][:, -1]) < np.mean(fresh[name][:, 0]) / 4
        assert not np.array_equal(errors["published"], fresh["published"]), "trials are not fresh"

        assert len(losses) == STEPS + 1 and losses[-1] < losses[0]
        origin = jax.tree.map(jnp.log, handmade.mu_h.parameters)

        # Where nothing is seen of it, a schedule that sees is the one of the count.
        drawn = draw(evaluate_key)
        blind = localise(blind_solver(origin), *drawn, HORIZON)
        assert np.allclose(localise(sighted_solver(origin | more), *drawn, HORIZON), blind)
    """,
}

LONG_RUNS = ("networks",)

# A process of its own: Jupyter's deprecations and its sockets, which it leaves to the garbage
# collector, would fail a pytest that turns warnings into errors.
EXECUTE = """
import sys
import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

# Without folders to look in, "python3" is the kernel of this very interpreter.
specs = KernelSpecManager(kernel_dirs=[])
manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs)
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, km=manager, timeout=300).execute()
nbformat.write(notebook, sys.argv[1])
"""


def execute(path, folder):
    """Run a copy of a notebook with few trials and its checks appended; return what came out.

    Where running its programs takes longer than compiling them, they are compiled as a user's.
    """
    import nbformat

    notebook = read(path)
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    checks = re.sub(r"(?m)^ {8}", "", CHECKS[path.stem].format(trials=TRIALS))
    notebook.cells.append(nbformat.v4.new_code_cell(checks))
    copy = folder / path.name
    nbformat.write(notebook, copy)
    jupyter = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    environment = {
        **os.environ,
        **{f"JUPYTER_{name}": str(folder / "jupyter") for name in jupyter},
        "FEDJAX_ADMM_NOTEBOOK_TRIALS": str(TRIALS),
        "IPYTHONDIR": str(folder / "ipython"),
        "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS") or "cpu",
    }
    if path.stem in LONG_RUNS:
        environment["XLA_FLAGS"] = ""
    command = [sys.executable, "-c", EXECUTE, str(copy)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr  # ends with the traceback of the cell
    return read(copy)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source]


def images(notebook):
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    return [output for output in outputs if "image/png" in output.get("data", {})]


def test_there_are_notebooks_and_each_has_its_checks():
    assert {path.stem for path in NOTEBOOKS} == set(CHECKS)


@pytest.mark.thorough
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_from_top_to_bottom(path, tmp_path):
    for module in ("ipykernel", "nbclient"):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    before = path.read_bytes()
    executed = execute(path, tmp_path)
    stored = read(path)
    assert path.read_bytes() == before
    assert len(images(executed)) == len(images(stored)) > 0
    for cell in code_cells(executed):
        assert all(output.output_type != "error" for output in cell.outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_is_stored_executed_and_tidy(path):
    notebook = read(path)
    assert path.stat().st_size < 300_000
    assert notebook.metadata.kernelspec.name == "python3"
    assert [cell.execution_count for cell in code_cells(notebook)] == list(
        range(1, len(code_cells(notebook)) + 1)
    )
    for cell in notebook.cells:
        assert not cell.metadata, "execution times and editor settings do not belong here"
        for output in cell.get("outputs", []):
            assert output.output_type != "error"
            assert output.get("name") != "stderr", output.text
            seen = output.get("text", "") + output.get("data", {}).get("text/plain", "")
            assert not re.search(r"site-packages|\w:\\|/(home|root|tmp|usr|opt|Users|work)/", seen)


def read(path):
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook
