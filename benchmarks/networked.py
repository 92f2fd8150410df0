"""One network lasso from a cold shell, beside Clarabel through cvxpy: every run a process.

    python benchmarks/networked.py [--edges 500 5000 50000] [--rounds 3000] [--limit 120]

Nodes of two groups (dim 3, five samples each, five edges per two nodes), half of them without data.
A run imports, builds, compiles, iterates in float64 until a relative gap of 1e-6 is certified, for
`--rounds` at most, and prints its objective, the rounds and the gap that it reached; both tools'
objectives stand side by side, as 1e-6 can be missed. `first` has an empty compilation cache,
`second` that of the first. Seconds are those of the process from its start to its end, memory is
its largest resident set.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

DATA = """
import numpy as np
def data(edges):
    rng = np.random.default_rng(0)
    nodes = max(8, 2 * edges // 5)
    ends = rng.integers(0, nodes, (2 * edges, 2))
    across = ends[:, 0] % 2 != ends[:, 1] % 2
    ends = ends[(ends[:, 0] != ends[:, 1]) & (~across | (rng.random(2 * edges) < 0.05))]
    ends = np.unique(np.sort(ends, axis=1), axis=0)
    ends = rng.permutation(ends)[:edges]
    truth = np.array([[2.0, -1.0, 0.5], [-1.0, 1.5, 0.0]])[np.arange(nodes) % 2]
    x = rng.standard_normal((nodes, 5, 3))
    y = np.einsum("nmd,nd->nm", x, truth) + 0.3 * rng.standard_normal((nodes, 5))
    return ends, x, y, rng.random(nodes) < 0.5
"""
OURS = """
import sys
import jax
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_compilation_cache_dir", sys.argv[2])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
import fedjax_admm as fa
ends, x, y, reached = data(int(sys.argv[1]))
problem = fa.problems.networked_regression(
    fa.graphs.from_edges(len(x), ends), x, y, accessible=reached)
done = fa.run_until(fa.solvers.gtv(problem, 0.1), problem, jax.random.key(0),
    residual=fa.certificates.relative_gap, tolerance=1e-6, max_rounds=int(sys.argv[3]), every=50)
w = np.asarray(done.estimate)
told = f"{int(done.trace['round'][0])} rounds, gap {float(done.trace['residual'][0]):.1e}"
"""
THEIRS = """
import sys
import cvxpy
import scipy.sparse as sparse
ends, x, y, reached = data(int(sys.argv[1]))
nodes, edges = len(x), len(ends)
open_ = np.flatnonzero(reached)
rows = np.arange(edges)
difference = sparse.csr_array((np.r_[np.ones(edges), -np.ones(edges)],
    (np.r_[rows, rows], np.r_[ends[:, 0], ends[:, 1]])), (edges, nodes))
blocks = sparse.block_diag(list(x[open_]), format="csr")
own = sparse.csr_array((np.ones(len(open_) * 3),
    (np.arange(len(open_) * 3), (3 * open_[:, None] + np.arange(3)).ravel())),
    (len(open_) * 3, nodes * 3))
w = cvxpy.Variable((nodes, 3))
flat = cvxpy.reshape(w, (nodes * 3,), order="C")
fitted = (blocks @ own) @ flat
loss = cvxpy.sum_squares(fitted - y[open_].ravel()) / 5
task = cvxpy.Problem(cvxpy.Minimize(loss + 0.1 * cvxpy.sum(cvxpy.norm(difference @ w, 2, axis=1))))
task.solve(solver="CLARABEL", tol_gap_rel=1e-6)
w, told = w.value, task.status
"""
END = """
import json
import resource
part = np.einsum("nmd,nd->nm", x, w) - y
value = (part[reached] ** 2).mean(1).sum()
value += 0.1 * np.linalg.norm(w[ends[:, 0]] - w[ends[:, 1]], axis=1).sum()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"value": value, "told": told, "peak": peak}))
"""


def taken(code: str, *words: str, limit: float) -> dict[str, Any]:
    """Run code in a process of its own; return what it printed, and its seconds."""
    start = time.perf_counter()
    command = [sys.executable, "-c", DATA + code + END, *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env=dict(os.environ)
        )
    except subprocess.TimeoutExpired:
        return {
            "told": f"stopped after {limit:g} s",
            "value": float("nan"),
            "peak": 0,
            "seconds": limit,
        }
    seconds = time.perf_counter() - start
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"code {done.returncode}"]
        return _failed(last[0][:60], seconds)
    return {**json.loads(done.stdout.splitlines()[-1]), "seconds": seconds}


def _failed(told: str, seconds: float) -> dict[str, Any]:
    return {"told": told, "value": float("nan"), "peak": 0, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, nargs="+", default=[500, 5000, 50000])
    parser.add_argument("--rounds", type=int, default=3000, help="of this package, at most")
    parser.add_argument("--limit", type=float, default=120, help="seconds of a process")
    parser.add_argument("--only", choices=("ours", "cvxpy"))
    given = parser.parse_args()
    print(f"{'edges':>7}  {'run':<8}{'seconds':>8}{'MiB':>7}  {'objective':>14}  rounds or status")
    for edges in given.edges:
        with tempfile.TemporaryDirectory() as cache:
            runs = [("first", OURS), ("second", OURS), ("Clarabel", THEIRS)]
            for name, code in runs:
                if given.only and (given.only == "cvxpy") != (name == "Clarabel"):
                    continue
                found = taken(code, str(edges), cache, str(given.rounds), limit=given.limit)
                print(
                    f"{edges:>7}  {name:<8}{found['seconds']:>8.2f}{found['peak']:>7.0f}"
                    f"  {found['value']:>14.8g}  {found['told']}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
