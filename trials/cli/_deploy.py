"""`deploy`: a study of a user's file on real clients, over NVFlare, or within this process."""

import logging
import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedjax_admm._checks import InputError
from fedjax_admm.trials.cli import _environment as environment
from fedjax_admm.trials.cli._options import (
    NoCache,
    assignments,
    folder_name,
    real_number,
    whole,
)

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="What `run` takes, or PATH.py with a STUDY; the same on all machines.",
    ),
]
Method = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which method of an experiment with several.")
]
Seed = Annotated[int, whole("Seed of an experiment, whose first trial is deployed.", at_least=0)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of an experiment."),
]
Rounds = Annotated[int, whole("Rounds in all.")]
Kit = Annotated[
    Path | None,
    typer.Option(
        parser=folder_name,
        metavar="DIR",
        help="This participant's certificates, as `nvflare provision` writes them into `startup`.",
    ),
]
Out = Annotated[
    Path,
    typer.Option(parser=folder_name, metavar="DIR", help="Folder of states, records and reports."),
]


def _seconds(words: str) -> Any:
    return typer.Option(parser=real_number, metavar="SECONDS", help=words)


X64 = Annotated[bool, typer.Option("--x64", help="Compute in float64; the same everywhere.")]


def server(
    file: File,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where clients reach this server.")
    ] = "localhost:8002",
    rounds: Rounds = 100,
    out: Out = Path("deployed"),
    deadline: Annotated[float, _seconds("When a round is closed (30).")] = 30.0,
    patience: Annotated[float, _seconds("For everybody to join (300).")] = 300.0,
    quorum: Annotated[
        int | None, whole("Close a round when so many were heard (all that are connected).")
    ] = None,
    kit: Kit = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the deployment in that folder.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Simulate the same rounds at the end; needs all data here."),
    ] = False,
    method: Method = None,
    seed: Seed = 2025,
    set_: Set = None,
    x64: X64 = False,
    no_cache: NoCache = False,
) -> None:
    """Run the server: a line per round, then who was heard, and how much was sent."""
    transport = _transport()
    study = _study(file, method, seed, set_, rounds, x64, no_cache)
    if compare and study.everybody is None:
        raise InputError(
            f"needs the data of all clients, but the STUDY in {file} has no `everybody`",
            argument="compare",
        )
    _check_folder(out, resume)
    from fedjax_admm import deploy

    if compare and _is_relay(study):
        raise InputError(
            f"needs a model at the server, but {file} has a graph, and a relay has none",
            argument="compare",
            remedy="compare by `deploy simulate`, with --record for the same participation",
        )
    job = deploy.Rounds(
        study=study,
        rounds=rounds,
        folder=out,
        deadline=deadline,
        patience=patience,
        quorum=quorum,
        resume=resume,
        report=lambda each: typer.echo(_line(each, rounds, job.server.numbers)),
    )
    typer.echo(f"Waiting at {listen} for {len(job.server.numbers)} clients.")
    try:
        transport.serve(job, listen, kit=kit)
    except KeyboardInterrupt:
        _interrupted(out, job.server.round)
    except deploy.MessageError as refusal:
        raise InputError(str(refusal), value=file) from refusal
    typer.echo(_report(job.server, out, compare and _deviation(study, job.server)))


def client(
    file: File,
    number: Annotated[int, whole("Which client this is, from 0.", at_least=0)],
    server: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where the server is.")
    ] = "localhost:8002",
    out: Out = Path("deployed"),
    patience: Annotated[float, _seconds("For which the server may be out of reach (300).")] = 300.0,
    kit: Kit = None,
    method: Method = None,
    seed: Seed = 2025,
    set_: Set = None,
    x64: X64 = False,
    no_cache: NoCache = False,
) -> None:
    """Run one client; started again, it goes on from its file in the folder."""
    transport = _transport()
    study = _study(file, method, seed, set_, None, x64, no_cache)
    if number >= study.num_clients:
        raise InputError(
            f"must be below the number of clients, which is {study.num_clients}, but it is "
            f"{number}",
            argument="number",
            value=number,
        )
    from fedjax_admm import deploy

    site = deploy.Site(study, number, out)
    typer.echo(f"Client {number} asks for the server at {server}.")
    _answer(transport, site, server, kit, patience)


def middle(
    file: File,
    number: Annotated[
        int, whole("Which node this is; the clients are numbered before it.", at_least=0)
    ],
    server: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where its parent is.")
    ] = "localhost:8002",
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where its children reach it.")
    ] = "localhost:8003",
    out: Out = Path("deployed"),
    deadline: Annotated[float, _seconds("When a pass is closed (3).")] = 3.0,
    patience: Annotated[
        float, _seconds("For children to join, and for which the parent may be out of reach (300).")
    ] = 300.0,
    quorum: Annotated[
        int | None, whole("Close a pass when so many were heard (all that are connected).")
    ] = None,
    kit: Kit = None,
    listen_kit: Annotated[
        Path | None,
        typer.Option(
            parser=folder_name, metavar="DIR", help="Its certificates as its children's server."
        ),
    ] = None,
    method: Method = None,
    seed: Seed = 2025,
    set_: Set = None,
    x64: X64 = False,
    no_cache: NoCache = False,
) -> None:
    """Run a middle node of a tree; started again, it goes on from its file in the folder."""
    transport = _transport()
    study = _study(file, method, seed, set_, None, x64, no_cache)
    if not study.num_clients <= number < study.num_sites:
        raise InputError(
            f"must be from {study.num_clients} to {study.num_sites - 1}, the middle nodes of the "
            f"study, but it is {number}",
            argument="number",
            value=number,
        )
    from fedjax_admm import deploy

    with transport.reaching(listen, 2 * study.num_sites, kit=listen_kit) as ask:
        below = deploy.Children(ask, deadline, patience, quorum)
        site = deploy.Site(study, number, out, below)
        typer.echo(f"Node {number} waits at {listen}, and asks for its parent at {server}.")
        _answer(transport, site, server, kit, patience)


def simulate(
    file: File,
    rounds: Rounds = 100,
    out: Out = Path("simulated"),
    method: Method = None,
    seed: Seed = 2025,
    set_: Set = None,
    x64: X64 = False,
    no_cache: NoCache = False,
) -> None:
    """Run server and clients within this process, and compare them with the simulation."""
    from fedjax_admm import deploy

    _check_folder(out, False)
    study = _study(file, method, seed, set_, rounds, x64, no_cache)
    sites: list[deploy.Site] = []
    ask = deploy.called(sites)
    below = deploy.Children(ask, quorum=0)
    # Nothing is resumed from a simulation: what its ends remember is written at the end.
    sites += [deploy.Site(study, i, out, below, lazy=True) for i in range(study.num_sites)]
    job = deploy.Rounds(
        study=study,
        rounds=rounds,
        folder=out,
        quorum=0,
        report=lambda each: typer.echo(_line(each, rounds, job.server.numbers)),
    )
    try:
        job.run(ask)
        for site in sites:
            site.save()
    except KeyboardInterrupt:
        typer.echo(f"Interrupted after {job.server.round} rounds.", err=True)
        raise SystemExit(130) from None
    compared = study.everybody is not None and not getattr(study.solver, "noisy", False)
    deviation = compared and _deviation(study, job.server, sites)
    typer.echo(_report(job.server, out, deviation))


def _answer(transport: Any, site: Any, server: str, kit: Path | None, patience: float) -> None:
    """Answer a server until the last round."""
    try:
        transport.join(site, server, kit=kit, patience=patience)
    except KeyboardInterrupt:
        typer.echo("Interrupted; the same command goes on.", err=True)
        raise SystemExit(130) from None
    typer.echo(f"Node {site.number} has done its part; its state is in {site.file}.")


def _transport() -> Any:
    """Return the module that speaks NVFlare.

    Raises:
      InputError: NVFlare is not installed.
    """
    try:
        from fedjax_admm.deploy import nvflare
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "nvflare":
            raise
        raise InputError(
            "messages between processes need NVFlare, which is not installed",
            remedy="install it by pip install 'fedjax-admm[nvflare]', or use `deploy simulate`",
        ) from error
    # What it logs of clients that come and go is in the line of the round.
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    return nvflare


def _check_folder(out: Path, resume: bool) -> None:
    """Check that no deployment is lost.

    Raises:
      InputError: the folder holds one, or holds none to go on with.
    """
    held = (out / "server.npz").exists()
    if held and not resume:
        raise InputError(
            f"{out} holds a deployment",
            value=str(out),
            remedy="name another folder by --out, or "
            "go on with the deployment by `deploy server ... --resume`",
        )
    if resume and not held:
        raise InputError(
            f"{out} holds no deployment to go on with", value=str(out), remedy="leave out --resume"
        )


def _study(
    file: str,
    method: str | None,
    seed: int,
    set_: list[str] | None,
    rounds: int | None,
    x64: bool,
    no_cache: bool,
) -> Any:
    settings = assignments(set_ or [])
    environment.prepare(x64=x64, cache=not no_cache)
    from fedjax_admm.trials.experiments import find_study

    return find_study(file, method, seed, settings, rounds)


def _line(each: Any, rounds: int, numbers: Collection[int]) -> str:
    """Return the line of a round in which those of some numbers are asked."""
    absent = sorted(set(numbers) - set(each.heard))
    seconds = each.clients + each.transport + each.encoding + each.solver
    without = f", without {', '.join(map(str, absent[:10]))}" if absent else ""
    more = "..." if len(absent) > 10 else ""
    refused = "".join(f"\n  refused: {sentence}" for sentence in each.refused)
    return (
        f"round {each.number + 1}/{rounds}: {len(each.heard)} of {len(numbers)} heard{without}"
        f"{more} ({seconds:.3f} s){refused}"
    )


def _is_relay(study: Any) -> bool:
    from fedjax_admm.deploy import Relay

    return isinstance(study.server(), Relay)


def _deviation(study: Any, server: Any, sites: Sequence[Any] = ()) -> float:
    """Return the largest difference to the simulation in which the same clients take part.

    A relay has no model: then models are those of the nodes, at their sites.
    """
    import numpy as np

    from fedjax_admm._run._rounds import run
    from fedjax_admm.participation import replay

    heard = server.record.heard
    result = run(
        study.solver,
        study.everybody(),
        study.key,
        rounds=len(heard),
        participation=replay(heard),
    )
    state = result.state.solver
    if _is_relay(study):
        simulated, models = study.solver.estimate(state), [site.estimate for site in sites]
    else:
        simulated, models = server.estimate_of(state), server.estimate
    return float(np.max(np.abs(np.asarray(simulated) - np.asarray(models))))


def _report(server: Any, out: Path, deviation: float | bool) -> str:
    """Return the report at the end."""
    heard = server.record.heard
    passes = heard.reshape(-1, heard.shape[-1])  # of a tree; of others, rounds
    each = f" of {heard.shape[1]} passes" if heard.ndim == 3 else ""
    counts = ", ".join(f"{i} in {n}" for i, n in enumerate(passes.sum(0)[:20]))
    more = ", ..." if heard.shape[-1] > 20 else ""
    lines = [
        f"{len(heard)} rounds{each}. Heard of client: {counts}{more}.",
        f"Sent {server.bytes_up} bytes up and {server.bytes_down} bytes down, beside headers.",
    ]
    if deviation is not False:
        lines.append(f"Largest difference to the simulation of these rounds: {deviation:.3g}.")
    lines.append(f"The state, record.json and rounds.json are in {out}.")
    return "\n".join(lines)


def _interrupted(out: Path, done: int) -> None:
    """Say how to go on, and end."""
    words = [word for word in sys.argv[1:] if word != "--resume"]
    again = shlex.join(["fedjax-admm", *words, "--resume"])
    kept = (out / "server.npz").exists()
    go_on = f"go on with: {again}" if kept else "nothing was kept, because no round was closed"
    typer.echo(f"Interrupted after {done} rounds; {go_on}", err=True)
    raise SystemExit(130) from None
