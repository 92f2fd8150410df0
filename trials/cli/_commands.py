"""The command `fedjax-admm`. A user's mistake gets one sentence and exit code 2."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from fedjax_admm._checks import InputError

# The commands import what they need themselves, so that help and most mistakes come at once.

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Batch solvers for federated optimisation: run an experiment, get its figure.",
)
solve = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Solve one problem of your own, from a file."
)
app.add_typer(solve, name="solve")


def _whole_number(text: str) -> int:
    """Read an option's text; typer's own message does not name the value."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number.") from None


def _whole(help_: str) -> Any:
    """Return an option that is a whole number."""
    return typer.Option(parser=_whole_number, metavar="INTEGER", help=help_)


def _real_number(text: str) -> float:
    """Read an option's text, as `_whole_number` does."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number.") from None


def _device_count(text: str) -> int | None:
    """Read a number of devices; None stands for all."""
    return None if text == "all" else _whole_number(text)


_MOST_MEMORY = 2**20  # GiB: more than any machine has


def _as_bytes(gibibytes: float | None) -> int | None:
    """Return an amount of memory in bytes.

    Raises:
      InputError: it is not positive.
    """
    if gibibytes is None:
        return None
    if not 0 < gibibytes < math.inf:
        raise InputError(f"--memory must be a number above 0 GiB, but it is {gibibytes:g}.")
    return int(min(gibibytes, _MOST_MEMORY) * 2**30)


_Name = Annotated[str, typer.Argument(metavar="EXPERIMENT", help="As `list` shows it.")]
_NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Do not keep compiled programs between commands.")
]


@app.command("list")
def list_experiments() -> None:
    """List every experiment: a line each, with its paper and its usual trials."""
    from fedjax_admm.trials.experiments import all_experiments

    for experiment in all_experiments().values():
        typer.echo(f"{experiment.name:<22} {experiment.title} ({experiment.trials} trials)")
        typer.echo(f"{'':<22} {experiment.paper}")


@app.command()
def show(name: _Name) -> None:
    """Show an experiment's settings, methods, metrics and findings."""
    import textwrap

    from fedjax_admm.trials.experiments import find

    experiment = find(name)
    defaults = experiment.defaults()
    lines = [
        f"{experiment.name}: {experiment.title}",
        textwrap.fill(experiment.paper, 100),
        "",
        f"trials   {experiment.trials}   (--trials)",
        f"rounds   {experiment.rounds}   (--rounds)",
        f"quick    {experiment.quick['trials']} trials, {experiment.quick['rounds']} rounds",
        "",
        "settings (--set name=value)",
        *(f"  {key:<19} {_shown(value)}" for key, value in defaults.items()),
        "",
        "methods",
        *(f"  {method}" for method in experiment.method_names()),
        "",
        "metrics",
        *(f"  {metric:<19} {label}" for metric, label in experiment.metrics.items()),
        "",
        "findings",
        textwrap.fill(experiment.findings, 88, initial_indent="  ", subsequent_indent="  "),
    ]
    typer.echo("\n".join(lines))


@app.command()
def run(
    name: _Name,
    trials: Annotated[int | None, _whole("Monte Carlo trials.")] = None,
    rounds: Annotated[int | None, _whole("Global rounds.")] = None,
    seed: Annotated[int | None, _whole("Seed of all draws (2025).")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting, as `show` lists them."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the result (results/EXPERIMENT).")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished run in that folder.")
    ] = False,
    x64: Annotated[bool, typer.Option("--x64", help="Compute in float64.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few trials and rounds: under a minute.")
    ] = False,
    batch: Annotated[int | None, _whole("Trials per micro-batch; decides the last bits.")] = None,
    devices: Annotated[
        int | None,
        typer.Option(
            parser=_device_count, metavar="INTEGER|all", help="Devices of each process (all)."
        ),
    ] = None,
    devices_per_trial: Annotated[
        int | None, _whole("Devices that share the clients of one trial (1).")
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(parser=_real_number, metavar="GIB", help="Memory of each device (all free)."),
    ] = None,
    fail_on_nan: Annotated[
        bool, typer.Option("--fail-on-nan", help="Stop at the first non-finite trial.")
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Write a profiler trace and a table of rates.")
    ] = False,
    coordinator: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT|auto", help="Where process 0 of several waits."),
    ] = None,
    num_processes: Annotated[int | None, _whole("How many processes there are.")] = None,
    process_id: Annotated[int | None, _whole("Which one this is, from 0.")] = None,
    no_cache: _NoCache = False,
) -> None:
    """Run an experiment: writes config.json, trials.npz, summary.csv and the figure."""
    from fedjax_admm.trials.cli import _environment as session
    from fedjax_admm.trials.engine import hosts
    from fedjax_admm.trials.experiments import find

    experiment = find(name)
    settings = dict(_assignment(text) for text in set_ or [])
    from jax.errors import JaxRuntimeError

    from fedjax_admm.trials.profiling import written_profile
    from fedjax_admm.trials.running import (
        NonFiniteError,
        Request,
        free_folder,
        resumed_x64,
        run_experiment,
        summary,
        unfinished_folder,
    )

    request = Request(
        trials=trials,
        rounds=rounds,
        seed=seed,
        settings=settings,
        batch=batch,
        quick=quick or None,
        devices=devices,
        devices_per_trial=devices_per_trial,
        memory=_as_bytes(memory),
        fail_on_nan=fail_on_nan,
        profile=profile,
    )
    session.prepare(cache=not no_cache, devices=devices)
    hosts.join(coordinator, num_processes, process_id)

    def place() -> tuple[str, bool]:
        folder = out or (unfinished_folder(name) if resume else free_folder(name))
        return str(folder), resume and resumed_x64(folder)

    folder = str(out or f"results/{name}")
    try:
        folder, wide = hosts.from_first(place)
        session.use_x64(x64 or experiment.x64 or wide)
        results = run_experiment(experiment, request, Path(folder), resume=resume)
    except (
        *(KeyboardInterrupt, hosts.StoppedElsewhereError, hosts.LostProcessError),
        *(NonFiniteError, JaxRuntimeError),
    ) as end:
        _stopped(end, f"go on with: fedjax-admm run {name} --out {folder} --resume")
    if results is not None:
        typer.echo(summary(results, folder))
        if profile:
            typer.echo(written_profile(Path(folder)))


def _stopped(end: BaseException, go_on: str) -> NoReturn:
    """Say why a run ended before it was finished, and how to go on."""
    from fedjax_admm.trials.engine import hosts

    if isinstance(end, KeyboardInterrupt):
        _say(f"Interrupted; {go_on}")
        raise SystemExit(130) from None
    if not isinstance(end, hosts.StoppedElsewhereError):
        _say(f"fedjax-admm: {' '.join(str(end).split())}")
        _say(go_on[0].upper() + go_on[1:])
    elif hosts.first():
        _say(f"Stopped, because another process was; {go_on}")
    raise SystemExit(1) from None


def _say(sentence: str) -> None:
    typer.echo(sentence, err=True)


@app.command()
def plot(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A finished run.")]) -> None:
    """Redraw the figure from the stored results."""
    from fedjax_admm.trials.experiments import find
    from fedjax_admm.trials.figures import save_figure
    from fedjax_admm.trials.results import load

    results = load(folder)
    save_figure(find(results.config["experiment"]).figure(results), folder)
    typer.echo(f"Wrote {folder}/figure.png and figure.pdf")


@app.command("compare")
def compare_runs(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR ...", help="Finished runs.")],
    against: Annotated[
        str | None, typer.Option(help="The method that is subtracted (the first).")
    ] = None,
    metric: Annotated[str, typer.Option(help="What is compared.")] = "error",
) -> None:
    """Print paired differences between methods, with standard errors."""
    from fedjax_admm.trials.results import compare

    typer.echo(compare(folders, against=against, metric=metric))


@solve.command()
def localization(
    input_: Annotated[
        Path, typer.Option("--input", help="CSV with columns x, y, [z,] range, in metres.")
    ],
    picture: Annotated[
        Path | None, typer.Option(help="Where the picture goes (INPUT's name with .png, here).")
    ] = None,
    rounds: Annotated[int, _whole("Global rounds of FSMDM.")] = 3000,
    no_cache: _NoCache = False,
) -> None:
    """Locate a target from the ranges that sensors measured."""
    from fedjax_admm._checks import count
    from fedjax_admm.trials import files
    from fedjax_admm.trials.cli import _environment as session
    from fedjax_admm.trials.solve.localization import draw_location, locate, read_ranges, report

    ranges = read_ranges(input_)
    count("--rounds", rounds)
    picture = picture or Path(f"{input_.stem}.png")
    kind = picture.suffix.lower().removeprefix(".")
    if kind not in ("png", "pdf", "svg"):
        raise InputError(f"--picture must end in .png, .pdf or .svg, but it is {picture}.")
    session.prepare(x64=True, cache=not no_cache)
    location = locate(ranges, rounds)
    typer.echo(report(ranges, location))
    figure = draw_location(ranges, location)
    files.write_atomically(picture, lambda file: figure.savefig(file, format=kind, dpi=150))
    typer.echo(f"Wrote {picture}")


def _real(help_: str) -> Any:
    """Return an option that is a number."""
    return typer.Option(parser=_real_number, metavar="NUMBER", help=help_)


@solve.command()
def networked(
    input_: Annotated[
        Path, typer.Option("--input", help="CSV with a header, one row per node and time.")
    ],
    node: Annotated[str, typer.Option(help="Column that names the node of a row.")],
    target: Annotated[str, typer.Option(help="Column that is predicted.")],
    features: Annotated[
        str,
        typer.Option(help="Columns, as in 'a,b[-1]'; [-1] is the value in the node's row before."),
    ],
    time: Annotated[
        str | None,
        typer.Option(help="Column that orders a node's rows: numbers, dates (order of the file)."),
    ] = None,
    graph: Annotated[
        str,
        typer.Option(
            metavar="wasserstein|neighbours|FILE",
            help="Who is compared: nodes with alike data, or a CSV file head,tail[,weight].",
        ),
    ] = "wasserstein",
    threshold: Annotated[
        float | None,
        _real("Largest squared distance that is joined (isolates 5 % of the nodes)."),
    ] = None,
    neighbours: Annotated[int | None, _whole("Nearest nodes that a node is joined to (5).")] = None,
    lam: Annotated[
        str, typer.Option(metavar="NUMBER|auto", help="Strength of the coupling.")
    ] = "0.5",
    penalty: Annotated[
        str,
        typer.Option(metavar="nlasso|l1|mocha|squared", help="On differences of neighbours."),
    ] = "nlasso",
    no_intercept: Annotated[
        bool, typer.Option("--no-intercept", help="Do not append a constant feature.")
    ] = False,
    splits: Annotated[int, _whole("How often rows are held out at random.")] = 5,
    validation: Annotated[float, _real("Share of every node's rows that is held out.")] = 0.33,
    rounds: Annotated[int, _whole("Rounds of the primal-dual method.")] = 1000,
    seed: Annotated[int, _whole("Seed of the splits.")] = 2025,
    coordinates: Annotated[
        str | None, typer.Option(help="Two columns for a map, such as longitude,latitude.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the result (networked-INPUT), replaced there.")
    ] = None,
    no_cache: _NoCache = False,
) -> None:
    """Fit a linear model per node of a network, and compare it with local and pooled models."""
    from fedjax_admm.trials.cli import _environment as session
    from fedjax_admm.trials.solve.networked import (
        check_settings,
        fit_networked,
        rows_needed,
        summary,
        write_results,
    )
    from fedjax_admm.trials.tables import build_graph, read_observations

    out = out or Path(f"networked-{input_.stem}")
    if out.exists() and not out.is_dir():
        raise InputError(f"--out must be a folder, but {out} is a file.")
    strength = check_settings(lam, penalty, splits, rounds, seed)
    observations = read_observations(
        input_,
        node=node,
        target=target,
        features=features,
        time=time,
        intercept=not no_intercept,
        coordinates=coordinates,
        at_least=rows_needed(validation),
    )
    session.prepare(x64=True, cache=not no_cache)
    network = build_graph(observations, graph, threshold=threshold, neighbours=neighbours)
    fit = fit_networked(
        observations,
        network.graph,
        lam=strength,
        penalty=penalty,
        splits=splits,
        validation=validation,
        rounds=rounds,
        seed=seed,
    )
    settings = {
        "input": str(input_),
        "node": node,
        "target": target,
        "features": features,
        "time": time,
        "graph": graph,
        "threshold": threshold,
        "neighbours": neighbours,
        "lam": strength,
        "penalty": penalty,
        "no_intercept": no_intercept,
        "splits": splits,
        "validation": validation,
        "rounds": rounds,
        "seed": seed,
        "coordinates": coordinates,
        "out": str(out),
    }
    typer.echo(summary(observations, network, fit, settings))
    written = write_results(out, observations, network, fit, settings)
    typer.echo(f"Wrote {', '.join(written)} in {out}")


@solve.command("ratings")
def solve_ratings(
    input_: Annotated[
        Path,
        typer.Option("--input", help="File of ratings: user, item, rating; CSV, MovieLens, gzip."),
    ],
    user: Annotated[
        str | None, typer.Option(help="Column of the users' numbers (the usual names).")
    ] = None,
    item: Annotated[str | None, typer.Option(help="Column of the items' numbers.")] = None,
    rating: Annotated[str | None, typer.Option(help="Column of the ratings.")] = None,
    clients: Annotated[
        int | None, _whole("Clients that share the users (100, or the number of users).")
    ] = None,
    sampled: Annotated[
        int | None, _whole("Clients that take part in a round (a tenth of them).")
    ] = None,
    rank: Annotated[int, _whole("Numbers per user and per item.")] = 5,
    rounds: Annotated[int, _whole("Rounds of FedMC-ADMM.")] = 400,
    inner_steps: Annotated[int, _whole("Steps per block in a client's turn.")] = 10,
    penalty: Annotated[
        str, typer.Option(metavar="l2|l1|nonnegative", help="On users' and items' factors.")
    ] = "l2",
    lam: Annotated[float, _real("Weight of the penalty on users' factors.")] = 1e-6,
    gamma: Annotated[float, _real("Weight of the penalty on items' factors.")] = 1e-6,
    beta: Annotated[
        str, typer.Option(metavar="NUMBER|auto", help="Weight of the clients' agreement.")
    ] = "auto",
    validation: Annotated[float, _real("Share of the ratings learnt from that judges beta.")] = 0.1,
    seed: Annotated[int, _whole("Seed of the split and of all draws.")] = 2025,
    top: Annotated[
        list[int] | None, _whole("A user's number: print its best unrated items; repeatable.")
    ] = None,
    top_count: Annotated[int, _whole("How many items --top prints.")] = 10,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the result (ratings-INPUT), replaced there.")
    ] = None,
    no_cache: _NoCache = False,
) -> None:
    """Complete a table of ratings by FedMC-ADMM, and compare it with means and biases."""
    from fedjax_admm._checks import count
    from fedjax_admm.trials.cli import _environment as session
    from fedjax_admm.trials.solve.ratings import (
        RatingsSettings,
        fit_ratings,
        read_beta,
        read_table,
        summary,
        write_results,
    )

    out = out or Path(f"ratings-{input_.stem}")
    if out.exists() and not out.is_dir():
        raise InputError(f"--out must be a folder, but {out} is a file.")
    count("--top-count", top_count)
    settings = RatingsSettings(
        clients=clients,
        sampled=sampled,
        rank=rank,
        rounds=rounds,
        inner_steps=inner_steps,
        penalty=penalty,
        lam=lam,
        gamma=gamma,
        beta=read_beta(beta),
        validation=validation,
        seed=seed,
    )
    table, shown = read_table(input_, user=user, item=item, rating=rating, top=top or [])
    session.prepare(cache=not no_cache)
    with _stages() as tell:
        fit = fit_ratings(table, settings, tell)
    typer.echo(summary(table, fit, top=shown, top_count=top_count))
    options = {
        "input": str(input_),
        "user": user,
        "item": item,
        "rating": rating,
        "top": top or [],
        "top_count": top_count,
        "out": str(out),
    }
    written = write_results(out, table, fit, options)
    typer.echo(f"Wrote {', '.join(written)} in {out} after {sum(fit.seconds.values()):.1f} s.")


@contextmanager
def _stages() -> Iterator[Callable[[str], None]]:
    """Show on a terminal's standard error what is being done; it disappears at the end."""
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield lambda name: status.update(name)


@solve.command("private")
def solve_private(
    input_: Annotated[
        Path, typer.Option("--input", help="CSV with a header, one row per sample of a client.")
    ],
    client: Annotated[str, typer.Option(help="Column that names the client of a row.")],
    target: Annotated[
        str, typer.Option(help="Column that is predicted; for logistic 0/1 or -1/1.")
    ],
    features: Annotated[
        str,
        typer.Option(
            help="Columns, as in 'a,b[-1]'; [-1] is the value in the client's row before. Nothing "
            "is scaled: statistics that scaled a column must be public."
        ),
    ],
    epsilon: Annotated[float, _real("Privacy of the whole run; inf for no noise.")],
    clip: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER|none",
            help="Norm to which gradients of samples are clipped, chosen without the data; none "
            "guarantees nothing.",
        ),
    ] = None,
    nominal_norm: Annotated[
        float | None, _real("With --clip none: the norm in the noise; it guarantees nothing.")
    ] = None,
    delta: Annotated[float, _real("Probability of failure of the guarantee.")] = 1e-5,
    accounting: Annotated[
        str, typer.Option(metavar="zcdp|advanced|basic", help="How releases are added up.")
    ] = "zcdp",
    rounds: Annotated[int, _whole("Rounds, in each of which every client sends once.")] = 200,
    tau: Annotated[float, _real("The budget grows by 1 / tau from round to round.")] = 0.985,
    method: Annotated[
        str, typer.Option(metavar="zcdp-nfl|subgradient|p-admm", help="What the clients run.")
    ] = "zcdp-nfl",
    loss: Annotated[
        str, typer.Option(metavar="squared|absolute|huber|logistic", help="Of one sample.")
    ] = "squared",
    huber_threshold: Annotated[
        float | None, _real("Where the Huber loss becomes linear (1).")
    ] = None,
    l1: Annotated[float, _real("Weight of ||w||_1; not to be computed from the data.")] = 0.0,
    l2: Annotated[float, _real("Weight of ||w||^2, the intercept included.")] = 1.0,
    rho: Annotated[float | None, _real("Weight of the clients' agreement (3).")] = None,
    step: Annotated[
        float | None, _real("First step (zcdp-nfl 1, subgradient 0.3); it is checked on the data.")
    ] = None,
    power: Annotated[float | None, _real("Step n is step / n^power; 0, 0.5 or 1 (0.5).")] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Column that orders a client's rows, for lags (order of the file)."),
    ] = None,
    no_intercept: Annotated[
        bool, typer.Option("--no-intercept", help="Do not append a constant feature.")
    ] = False,
    edges: Annotated[
        Path | None, typer.Option(help="CSV head,tail: who sends to whom (drawn).")
    ] = None,
    degree: Annotated[
        float | None, _real("Mean number of neighbours if drawn (3, or log(clients)).")
    ] = None,
    graph_seed: Annotated[int | None, _whole("Seed of the drawn graph; public (2025).")] = None,
    seed: Annotated[
        int | None,
        _whole("Seed of the noise, for tests: who knows it can take the noise away (secret)."),
    ] = None,
    evaluate: Annotated[
        bool,
        typer.Option("--evaluate", help="Also measure errors on the data, which is not protected."),
    ] = False,
    keep_private: Annotated[
        bool,
        typer.Option("--keep-private", help="Also write the models without noise: not protected."),
    ] = False,
    x64: Annotated[bool, typer.Option("--x64", help="Compute in float64.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the result (private-INPUT), replaced there.")
    ] = None,
    no_cache: _NoCache = False,
) -> None:
    """Fit a linear model to clients' data under differential privacy, and say what was spent."""
    from fedjax_admm.trials.cli import _environment as session
    from fedjax_admm.trials.solve.private import (
        PrivateSettings,
        build_client_graph,
        fit_private,
        noise_key,
        read_clients,
        read_clip,
        summary,
        write_results,
    )

    out = out or Path(f"private-{input_.stem}")
    if out.exists() and not out.is_dir():
        raise InputError(f"--out must be a folder, but {out} is a file.")
    settings = PrivateSettings(
        epsilon=epsilon,
        clip=read_clip(clip),
        nominal_norm=nominal_norm,
        delta=delta,
        rounds=rounds,
        tau=tau,
        accounting=accounting,
        method=method,
        loss=loss,
        huber_threshold=huber_threshold,
        l1=l1,
        l2=l2,
        rho=rho,
        step=step,
        power=power,
    )
    observations = read_clients(
        input_,
        client=client,
        target=target,
        features=features,
        time=time,
        intercept=not no_intercept,
        loss=loss,
    )
    session.prepare(x64=x64, cache=not no_cache)
    key = noise_key(seed)
    network = build_client_graph(observations.nodes, edges, degree=degree, seed=graph_seed)
    fit = fit_private(observations, network.graph, settings, key, evaluate=evaluate)
    options = {
        "input": str(input_),
        "client": client,
        "target": target,
        "features": features,
        "time": time,
        "no_intercept": no_intercept,
        "edges": None if edges is None else str(edges),
        "degree": degree,
        "graph_seed": graph_seed,
        "evaluate": evaluate,
        "keep_private": keep_private,
        "x64": x64,
        "out": str(out),
    }
    seeded = seed is not None
    typer.echo(summary(observations, network, fit, options, seeded=seeded))
    written = write_results(out, observations, network, fit, options, seeded=seeded)
    typer.echo(f"Wrote {', '.join(written)} in {out}")


@app.command()
def doctor() -> None:
    """Report devices, versions, the compilation cache, and what is missing."""
    from fedjax_admm.trials.cli import _environment as session

    session.prepare()
    from fedjax_admm.trials.cli._doctor import examine

    typer.echo(examine())


def main() -> None:
    """Run the command line: mistakes end with one sentence on standard error and code 2."""
    # click's UsageError, wherever this version of typer keeps it.
    usage_error: Any = typer.BadParameter.__base__
    try:
        code = app(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except InputError as error:
        _give_up(str(error))
    except usage_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
            sys.exit(2)
        _give_up(error.format_message())
    except KeyboardInterrupt:
        sys.exit(130)


def _give_up(sentence: str) -> None:
    sentence = " ".join(sentence.split())
    end = "" if sentence.endswith((".", "?")) else "."
    typer.echo(f"fedjax-admm: {sentence}{end}", err=True)
    sys.exit(2)


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise InputError(f"--set must be NAME=VALUE, but it is {text!r}.")
    return name, value


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{part:g}" for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
