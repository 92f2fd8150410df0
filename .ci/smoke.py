"""A little of everything, and the README's code, where the whole suite does not run."""

import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import jax
import numpy as np

import fedjax_admm as fa
from fedjax_admm.trials import load, monte_carlo


def trial(key):
    """Locate a target once."""
    problem = fa.problems.draw_localization(key, fa.problems.cauchy_noise(1.0))
    measure = fa.measures.localization_error
    result = fa.run(fa.solvers.fsmdm("tuned"), problem, key, rounds=40, every=10, measure=measure)
    return {"error": result.trace["error"]}


def main() -> None:
    """Run, keep, resume, write, read and draw; then run the README."""
    names = ("jax", "jaxlib", "optax", "numpy", "chex", "matplotlib", "jinja2", "typer", "rich")
    names += ("filelock", "flatbuffers", "pyarrow")
    print(", ".join(f"{name} {metadata.version(name)}" for name in names))
    with tempfile.TemporaryDirectory() as folder:
        store, key = Path(folder) / "chunks", jax.random.key(0)
        first, again = (
            monte_carlo(trial, key, 16, batch=2, chunk=8, store=store, progress=False)
            for _ in range(2)
        )
        np.testing.assert_array_equal(first.arrays["error"], again.arrays["error"])
        (Path(folder) / "mine.csv").write_text("user,item,rating\nanna,1,5\nbob,2,3.5\n")
        assert fa.ratings.read_ratings(Path(folder) / "mine.csv").user("bob") == 1
        out = Path(folder) / "run"
        for words in (
            ["list"],
            ["run", "fsmdm-cauchy", "--trials", "4", "--rounds", "20", "--out", str(out)],
            ["plot", str(out)],
        ):
            code = "from fedjax_admm.trials.cli import main; main()"
            subprocess.run([sys.executable, "-c", code, *words], check=True)
        assert load(out).arrays
        assert (out / "figure.png").stat().st_size > 10_000
    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    for code in re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE):
        exec(code, {})


if __name__ == "__main__":
    main()
