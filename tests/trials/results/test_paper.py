"""Tables for a paper: two digits of the error, and bold for what is surely the best."""

import jax
import numpy as np

from fedjax_admm.trials import monte_carlo
from fedjax_admm.trials.results import trials_table
from fedjax_admm.trials.results._paper import table_of

RANDOM = np.random.default_rng(0)
COMMON = RANDOM.normal(size=200)  # the same in all methods: differences are sure, means are not
ROWS = {
    "a_b": np.stack([10 + COMMON, COMMON, 1e-7 * (2 + COMMON)]),
    "100 %": np.stack([10.1 + COMMON + 0.01 * RANDOM.normal(size=200), COMMON, 2e-7 + 0 * COMMON]),
}


def test_markdown_has_two_digits_of_the_error_and_bold_for_the_surely_best():
    head, rule, first, second, _, caption = table_of(
        ROWS, ["x = 1", "x = 2", "x = 3"], "what", "markdown"
    ).splitlines()
    assert head == "| method | x = 1 | x = 2 | x = 3 |"
    assert rule.count("---:") == 3
    error = np.std(COMMON, ddof=1) / np.sqrt(200)
    mean = np.mean(COMMON)
    assert first.split(" | ")[1] == f"**{10 + mean:.3f} ± {error:.3f}**"
    assert first.split(" | ")[2] == second.split(" | ")[2] == f"{mean:.3f} ± {error:.3f}"
    assert first.split(" | ")[3] == f"({2 + mean:.3f} ± {error:.3f})e-7 |"
    assert "**" not in second
    assert caption.startswith("what; mean and standard error. Bold:")


def test_latex_escapes_names_and_counts_what_is_not_finite():
    rows = {name: values.copy() for name, values in ROWS.items()}
    rows["a_b"][0, :3] = np.inf
    text = table_of(rows, ["x", "y", "z"], "50 % of_them", "latex")
    assert r"\caption{50 \% of\_them; " in text
    assert r"left out: 3 of a\_b." in text
    assert r"    a\_b & $" in text
    assert r"    100 \% & $" in text
    assert r"\cdot 10^{-7}" in text


def test_trials_of_ones_own_have_a_table():
    def trial(key):
        error = jax.random.uniform(key)
        return {
            "mine/error": error,
            "mine/bits": 3.0,
            "theirs/error": error + 1,
            "curve": error[None],
        }

    text = trials_table(
        monte_carlo(trial, jax.random.key(0), 8, progress=False).arrays, caption="both"
    )
    head, _, mine, theirs, _, caption = text.splitlines()
    assert head == "| method | error | bits |"
    assert mine.startswith("| mine | **0.")
    assert theirs.endswith("| - |")
    assert caption.startswith("both, 8 trials; ")
