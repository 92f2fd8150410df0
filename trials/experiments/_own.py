"""Experiments of a user's own: in a file, or in an importable module.

A file or a module names them `EXPERIMENT` (one) or `EXPERIMENTS` (a sequence). A mistake in it is
told in one sentence with its place.
"""

import contextlib
import hashlib
import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import jax

from fedjax_admm._checks import InputError, listed, one_line
from fedjax_admm._host._input_files import opened
from fedjax_admm.trials.experiments._experiment import Experiment, Origin
from fedjax_admm.trials.experiments._mistakes import RAISED, described

_NAMES = ("EXPERIMENT", "EXPERIMENTS")
_loaded: dict[Path, tuple[tuple[str, bool], ModuleType]] = {}


def in_file(asked: str, path: str, member: str | None) -> Experiment:
    """Return an experiment of a file."""
    module, digest = _load(Path(path))
    return _chosen(asked, path, str(Path(path).resolve()), module, digest, member)


def file_module(path: str) -> ModuleType:
    """Return the module in a file."""
    return _load(Path(path))[0]


def in_module(asked: str, name: str, member: str) -> Experiment:
    """Return an experiment of an importable module; the working directory is looked at last."""
    with _search(str(Path.cwd()), last=True):
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise _mistake(name, error) from error
            raise InputError(
                f"there is no module {error.name}",
                value=name,
                remedy="install it or run from the folder that holds it",
            ) from None
        except RAISED as error:
            raise _mistake(name, error) from error
    return _chosen(asked, name, name, module, digest_of(module), member)


def offered(place: str, value: Any) -> tuple[Experiment, ...]:
    """Return the experiments that a module, a sequence of experiments or an experiment offers."""
    if isinstance(value, ModuleType):
        held = {name: vars(value)[name] for name in _NAMES if hasattr(value, name)}
        if not held:
            raise InputError(
                f"{place} has no EXPERIMENT and no EXPERIMENTS",
                value=place,
                remedy="name an Experiment so, or run one as PATH.py:NAME",
            )
        parts = [each for name in held for each in offered(f"{name} in {place}", held[name])]
        value = list({id(each): each for each in parts}.values())
    elif isinstance(value, Experiment):
        value = [value]
    plain = isinstance(value, list | tuple) and value
    if not plain or not all(isinstance(each, Experiment) for each in value):
        raise InputError(
            f"{place} must be an Experiment or a sequence of them, but it is {one_line(value)}",
            value=value,
        )
    return tuple(value)


def digest_of(module: ModuleType) -> str | None:
    """Return the SHA-256 of the file that a module was imported from; None without a file."""
    file = getattr(module, "__file__", None)
    return None if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()


def file_of(module: ModuleType) -> str | None:
    """Return the absolute path of the file that a module was imported from."""
    file = getattr(module, "__file__", None)
    return None if file is None else str(Path(file).resolve())


def _chosen(
    asked: str, shown: str, again: str, module: ModuleType, digest: str | None, member: str | None
) -> Experiment:
    """Return the experiment that is asked for of a module, with its origin."""
    declared = any(hasattr(module, name) for name in _NAMES)
    experiments = offered(shown, module) if declared or member is None else ()
    if member is not None:
        held = [value for value in vars(module).values() if isinstance(value, Experiment)]
        named = {each.name: each for each in (*held, *experiments)}
        if member in named:
            experiments = (named[member],)
        elif member in vars(module):
            experiments = offered(f"{member} in {shown}", vars(module)[member])
        else:
            remedy = f"it has {listed(named)}" if named else None
            raise InputError(f"{shown} has no experiment {member!r}", value=member, remedy=remedy)
        again = f"{again}:{member}"
    if len(experiments) > 1:
        choices = ", ".join(f"{shown}:{each.name}" for each in experiments)
        raise InputError(f"{shown} has several experiments; name one of {choices}", value=shown)
    return replace(next(iter(experiments)), origin=Origin(asked, again, file_of(module), digest))


def _load(path: Path) -> tuple[ModuleType, str]:
    """Import a file under a name that is its own, once as long as it stays as it is.

    Arrays that it makes are of the width that JAX has then, so that another width loads it anew.
    """
    if not path.exists():
        raise InputError(f"there is no file {path}", value=path)
    with opened(path) as file:
        source = file.read()
    place = path.resolve()
    digest = hashlib.sha256(source).hexdigest()
    made = (digest, bool(jax.config.read("jax_enable_x64")))
    if place in _loaded and _loaded[place][0] == made:
        return _loaded[place][1], digest
    _loaded.pop(place, None)
    words = "".join(letter if letter.isalnum() else "_" for letter in place.stem)
    module = ModuleType(f"{words}_{hashlib.sha256(str(place).encode()).hexdigest()[:8]}")
    module.__file__ = str(place)
    sys.modules[module.__name__] = module  # pickling and dataclasses look there
    try:
        with _search(str(place.parent)):
            # Not by an importer: what runs must be what the digest is of, and no older bytecode.
            exec(compile(source, str(place), "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        del sys.modules[module.__name__]
        if isinstance(error, RAISED):
            raise _mistake(str(path), error, place) from error
        raise
    _loaded[place] = made, module
    return module, digest


@contextlib.contextmanager
def _search(folder: str, *, last: bool = False) -> Iterator[None]:
    """Have modules looked for in a folder too."""
    sys.path.insert(len(sys.path) if last else 0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _mistake(shown: str, error: BaseException, file: Path | None = None) -> InputError:
    return InputError(f"{shown} cannot be imported: {described(error, file)}", value=shown)
