"""What `fedjax-admm run` says when it has finished."""

from fedjax_admm.trials.figures import figure_files
from fedjax_admm.trials.results import Results


def summary(results: Results, folder: str) -> str:
    """Return a run's time, what turned non-finite, whether its data are usual, and its files."""
    seconds = results.config["seconds"]
    lines = [
        f"{results.config['trials']} trials in {seconds['total']:.1f} s "
        f"(compile {seconds['compile']:.1f} s, run {seconds['run']:.1f} s)."
    ]
    for method, rounds in results.nonfinite.items():
        if (rounds > 0).any():
            lines.append(
                f"{method}: {int((rounds > 0).sum())} of {rounds.size} runs turned non-finite, "
                f"the first in round {int(rounds[rounds > 0].min())}; they are left out of the "
                "means and counted in summary.csv."
            )
    data, measured_on = results.config["data"], results.config["measured_on"]
    if results.config["findings"] and data != measured_on:
        lines.append(
            f"The findings of {results.config['experiment']} are not about the data of this run "
            f"({data}): they were measured on {measured_on}."
        )
    if results.config["statement"]:
        lines.append(results.config["statement"])
    names = ", ".join(figure_files(results.config).names)
    lines.append(f"Wrote {folder}/{names}, summary.csv, trials.npz, config.json")
    return "\n".join(lines)
