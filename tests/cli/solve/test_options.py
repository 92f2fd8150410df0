"""Adding an option is one line: what follows from a field of a family's settings."""

import json
import math
import shlex
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pytest
import typer

from fedjax_admm._checks import InputError
from fedjax_admm.trials.cli import _app as command_line
from fedjax_admm.trials.cli._solve import add_family
from fedjax_admm.trials.solve import (
    FAMILIES,
    Stages,
    choice,
    flag,
    localization,
    number,
    solve_file,
    text,
    whole,
    write_solution,
)
from fedjax_admm.trials.solve._command import spacing
from fedjax_admm.trials.solve._settings import SHARE
from tests.trials.small import EXPERIMENT

RANGES = "x,y,range\n3,4,5\n-6,8,10\n5,-12,13\n-8,-15,17\n"


@dataclass(frozen=True, kw_only=True)
class OneMore(localization.LocalizationSettings):
    """Locate a target with one more option.

    This paragraph is for readers of the code.
    """

    family = "localization-more"
    trust: float = number("Share of the ranges that is trusted.", 0.25, SHARE)


@dataclass(frozen=True, kw_only=True)
class OfEveryKind(localization.LocalizationSettings):
    """Locate a target with options of every kind."""

    family = "localization-kinds"
    units: str = choice("Of lengths.", ("metre", "foot"), "metre")
    note: str | None = text("What is noted.", None)
    folder: Path | None = text("Where else.", None, kind=Path)  # noqa: RUF009
    weight: float | str = number("Or automatic.", "auto", SHARE, word="auto")
    sensors: tuple[int, ...] = whole("Some of them; repeatable.", (), repeated=True)
    secret: int | None = whole("Not written.", None, secret=True)
    loud: bool = flag("Say more.")


@pytest.fixture
def solve(command, monkeypatch, tmp_path):
    """Run the command of a family that is known to this test only."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    for family in (OneMore, OfEveryKind):
        add_family(app, family)
    monkeypatch.setattr(command_line, "app", app)
    (tmp_path / "mine.csv").write_text(RANGES)

    def call(family, *words):
        given = [] if "--help" in words else ["--input", "mine.csv", "--rounds", 20]
        return command(family.family, *given, *words)

    return call


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def test_one_line_is_an_option_with_help_and_default(solve):
    told = " ".join(solve(OneMore, "--help").out.split())
    assert "--trust NUMBER Share of the ranges that is trusted. [default: 0.25]" in told
    assert "--rounds INTEGER Global rounds of FSMDM. [default: 3000]" in told
    assert "--out DIR Folder of the result (localization-more-INPUT)." in told
    assert "Locate a target with one more option." in told
    assert "readers of the code" not in told


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("2", "--trust must lie between 0 and 1, but it is 2."),
        ("much", "Invalid value for '--trust': 'much' is not a number."),
    ],
)
def test_one_line_is_checked(solve, value, sentence):
    assert solve(OneMore, "--trust", value).mistake() == sentence
    with pytest.raises(InputError) as refused:
        OneMore(trust=2.0)
    assert str(refused.value) == "trust must lie between 0 and 1, but it is 2."


def test_one_line_is_stored_and_repeated(solve, tmp_path):
    outcome = solve(OneMore, "--trust", "0.5")
    assert outcome.code == 0, outcome.err
    folder = tmp_path / "localization-more-mine"
    config = config_of(folder)
    assert config["settings"]["trust"] == 0.5
    words = shlex.split(config["command"])
    assert words[:3] == ["fedjax-admm", "solve", "localization-more"]
    assert words[words.index("--trust") + 1] == "0.5"
    before = (folder / "models.csv").read_bytes()
    assert solve(OneMore, *words[words.index("--rounds") + 2 :], "--overwrite").code == 0
    assert (folder / "models.csv").read_bytes() == before


def test_options_of_every_kind_are_read_stored_and_repeated(solve, tmp_path):
    words = (
        *("--units", "foot", "--note", "two words", "--folder", "else/where", "--weight", "0.5"),
        *("--sensors", 3, "--sensors", 1, "--secret", 98765, "--loud", "--out", "out"),
    )
    outcome = solve(OfEveryKind, *words)
    assert outcome.code == 0, outcome.err
    config = config_of(tmp_path / "out")
    assert config["settings"] == {
        "input": "mine.csv",
        "rounds": 20,
        "units": "foot",
        "note": "two words",
        "folder": "else/where",
        "weight": 0.5,
        "sensors": [3, 1],
        "secret": "given, not stored",
        "loud": True,
        "style": None,
        "format": None,
        "columns": None,
        "out": "out",
    }
    assert config["command"] == (
        "fedjax-admm solve localization-kinds --input mine.csv --rounds 20 --units foot "
        "--note 'two words' --folder else/where --weight 0.5 --sensors 3 --sensors 1 --loud "
        "--out out"
    )
    assert not any(b"98765" in path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert "98765" not in repr(OfEveryKind(secret=98765))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"units": "mile"}, "units must be one of metre, foot, but it is 'mile'."),
        ({"weight": "some"}, "weight must be a positive number or auto, but it is 'some'."),
        ({"weight": None}, "weight must be a positive number or auto, but it is None."),
        ({"sensors": (1, 0)}, "sensors must be at least 1, but it is 0."),
        ({"rounds": 2.5}, "rounds must be a whole number, but it is 2.5."),
        ({"rounds": None}, "rounds must be a whole number, but it is None."),
    ],
)
def test_settings_from_python_are_told_by_their_own_names(given, sentence):
    with pytest.raises(InputError) as refused:
        OfEveryKind(**given)
    assert str(refused.value) == sentence


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_declares_all_of_its_fields(family):
    assert all("option" in field.metadata for field in fields(family))
    assert family.__doc__.splitlines()[0].endswith(".")


def test_no_setting_of_an_experiment_is_called_as_an_option_is():
    """A mistake in --set rounds=0 would be told of --rounds."""
    from fedjax_admm.trials.experiments import all_experiments

    (run,) = [each for each in command_line.app.registered_commands if each.name == "run"]
    options = set(run.callback.__annotations__) | {"set"}
    for experiment in (*all_experiments().values(), EXPERIMENT):
        assert not options & set(experiment.defaults())


# What all commands do


def test_stages_are_told_as_they_begin_and_timed(tmp_path):
    (tmp_path / "mine.csv").write_text(RANGES)
    told = []
    stages = Stages(told.append)
    settings = localization.LocalizationSettings(rounds=20)
    found = solve_file(settings, tmp_path / "mine.csv", stages)
    written = write_solution(found, tmp_path / "mine.csv", tmp_path / "out", stages)
    assert told == list(stages.seconds)
    assert told[0] == "reading"
    assert len(told) == 4
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(written)


def test_numbers_that_json_has_not_are_words(tmp_path):
    (tmp_path / "mine.csv").write_text(RANGES)
    settings = localization.LocalizationSettings(rounds=20)
    found = solve_file(settings, tmp_path / "mine.csv", Stages())
    strange = {"a": np.float32("inf"), "b": [math.nan, np.int64(3)], "c": {"d": tmp_path}}
    object.__setattr__(found, "result", strange)
    write_solution(found, tmp_path / "mine.csv", tmp_path, Stages(), overwrite=True)
    result = config_of(tmp_path)["result"]
    assert result == {"a": "inf", "b": ["nan", 3], "c": {"d": str(tmp_path)}}


@pytest.mark.parametrize(
    ("rounds", "records", "every"),
    [
        *((1, 20, 1), (19, 20, 1), (40, 20, 2), (50, 20, 2), (100, 20, 5), (400, 20, 20)),
        *((401, 20, 1), (200, 100, 2), (1000, 100, 10), (199, 100, 1), (7, 100, 1)),
    ],
)
def test_records_are_at_least_so_many(rounds, records, every):
    assert spacing(rounds, records) == every
