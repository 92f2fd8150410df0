"""`new`: files to begin with: an experiment, a solver, a kernel, with tests that check them."""

import importlib.util
import io
import keyword
import os
import tokenize
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from fedjax_admm._checks import InputError, one_of
from fedjax_admm._host._files import write_text
from fedjax_admm.trials.cli._options import folder_name

KINDS = ("federated", "localization", "graph", "tree", "ratings")

Name = Annotated[str, typer.Argument(metavar="NAME", help="What it is called, as in Python.")]
Folder = Annotated[
    Path,
    typer.Option(
        "--out", parser=folder_name, metavar="DIR", help="Folder of the new files (this one)."
    ),
]


Kind = Annotated[
    str,
    typer.Option(metavar="|".join(KINDS), help="What the experiment is about."),
]


def new_experiment(name: Name, out: Folder = Path(), kind: Kind = KINDS[0]) -> None:
    """Write an experiment to begin with: own data, and solvers that are compared."""
    one_of("kind", kind, KINDS)
    (path,) = _write("experiment", name, out, tested=False, of=kind)
    typer.echo(f"Wrote {path}; run it: fedjax-admm run {path} --quick")


def new_solver(name: Name, out: Folder = Path()) -> None:
    """Write a solver to begin with, and the test that it obeys the protocol."""
    path, test = _write("solver", name, out, tested=True)
    typer.echo(f"Wrote {path} and {test}; check it: pytest {test}")


def new_kernel(name: Name, out: Folder = Path()) -> None:
    """Write a proximal map to begin with, and the test that it minimises what it says."""
    path, test = _write("kernel", name, out, tested=True)
    typer.echo(f"Wrote {path} and {test}; check it: pytest {test}")


def _write(kind: str, name: str, out: Path, *, tested: bool, of: str = "") -> tuple[Path, ...]:
    """Write the files of a kind under a new name, and return where they are."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise InputError(
            f"NAME must be a name as in Python, such as my_{kind}, but it is {name!r}", value=name
        )
    texts = {f"{name}.py": _template(f"{kind}_{of}" if of else kind)}
    if tested:
        texts[f"test_{name}.py"] = _template(f"test_{kind}")
    taken = set().union(*map(_identifiers, texts.values())) - {f"own_{kind}"}
    if name in taken or importlib.util.find_spec(name) is not None:
        what = "stands for something else in the file" if name in taken else "is a module's name"
        raise InputError(f"{name} {what}", value=name, remedy="choose another NAME")
    named = {file: _named(text, kind, name) for file, text in texts.items()}
    for path in map(out.joinpath, named):
        if os.path.lexists(path):
            remedy = "choose another NAME or {out}"
            told = f"{path} is there already"
            raise InputError(told, value=path, remedy=remedy, others=["out"])
    for file, text in named.items():
        write_text(out / file, text)
    return tuple(map(out.joinpath, named))


def _template(name: str) -> str:
    """Return the text of a file to begin with, which runs as it is."""
    templates = resources.files("fedjax_admm.trials.cli") / "new-files"
    return (templates / f"{name}.py.txt").read_text("utf-8")


def _named(text: str, kind: str, name: str) -> str:
    """Return the text with its own names replaced."""
    title = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    if title in (name, ""):
        title = f"{name}{kind.capitalize()}"
    return text.replace(f"own_{kind}", name).replace(f"Own{kind.capitalize()}", title)


def _identifiers(text: str) -> set[str]:
    """Return the names that a program uses."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}
