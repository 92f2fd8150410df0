"""Adding an option is one line: what follows from a field of a family's settings."""

import math
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import typer

from fedjax_admm._checks import InputError
from fedjax_admm.trials.cli import _app as command_line
from fedjax_admm.trials.cli._solve import add_family
from fedjax_admm.trials.solve import (
    LocalizationSettings,
    Stages,
    choice,
    claimed_folder,
    flag,
    number,
    solve_file,
    text,
    whole,
    write_solution,
)
from fedjax_admm.trials.solve._options import MOST_ROUNDS
from fedjax_admm.trials.solve._solution import spacing
from tests.cli.reading import config_of
from tests.trials.small import EXPERIMENT

RANGES = "x,y,range\n3,4,5\n-6,8,10\n5,-12,13\n-8,-15,17\n"


@dataclass(frozen=True, kw_only=True)
class OfEveryKind(LocalizationSettings):
    """Locate a target with options of every kind.

    This paragraph is for readers of the code.
    """

    family = "localization-kinds"
    trust: Annotated[float, number("A share.", above=0, below=1)] = 0.25
    units: Annotated[str, choice("Of lengths.", ("metre", "foot"))] = "metre"
    note: Annotated[str | None, text("What is noted.")] = None
    folder: Annotated[Path | None, text("Where else.", kind=Path)] = None
    weight: Annotated[Any, number("Or automatic.", above=0, word="auto")] = "auto"
    sensors: Annotated[list[str] | None, text("Some of them; repeatable.", kind=tuple)] = None
    secret: Annotated[int | None, whole("Not written.")] = field(default=None, repr=False)
    loud: Annotated[bool, flag("--loud", "Say more.")] = False


@pytest.fixture
def solve(command, monkeypatch, tmp_path):
    """Run the command of a family that is known to this test only."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    add_family(app, OfEveryKind)
    monkeypatch.setattr(command_line, "app", app)
    (tmp_path / "mine.csv").write_text(RANGES)

    def call(*words):
        given = [] if "--help" in words else ["--input", "mine.csv", "--rounds", 20]
        return command(OfEveryKind.family, *given, *words)

    return call


def test_a_field_is_an_option_with_help_and_default(solve):
    told = " ".join(solve("--help").out.split())
    assert "--trust NUMBER A share. [default: 0.25]" in told
    assert "--rounds INTEGER Global rounds of FSMDM. [default: 3000]" in told
    assert "(results/localization-kinds-INPUT)." in told.replace(" ", "")
    assert "Locate a target with options of every kind." in told
    assert "readers of the code" not in told


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("2", "--trust must be less than 1, but it is 2."),
        ("much", "Invalid value for '--trust': 'much' is not a number."),
    ],
)
def test_an_option_is_checked(solve, value, sentence):
    assert solve("--trust", value).mistake() == sentence


def test_options_of_every_kind_are_read_stored_and_repeated(solve, tmp_path):
    words = (
        *("--units", "foot", "--note", "two words", "--folder", "else/where", "--weight", "0.5"),
        *("--sensors", 3, "--sensors", 1, "--secret", 98765, "--loud", "--out", "out"),
    )
    outcome = solve(*words)
    assert outcome.code == 0, outcome.err
    config = config_of(tmp_path / "out")
    assert config["settings"] == {
        "input": "mine.csv",
        "rounds": 20,
        "trust": 0.25,
        "units": "foot",
        "note": "two words",
        "folder": "else/where",
        "weight": 0.5,
        "sensors": ["3", "1"],
        "secret": "given, not stored",
        "loud": True,
        "anchors": None,
        "odometry": None,
        "truth": None,
        "clock": False,
        "tag": None,
        "map": None,
        "time_format": None,
        "style": None,
        "format": None,
        "columns": None,
        "out": "out",
    }
    assert config["command"] == (
        "fedjax-admm solve localization-kinds --input mine.csv --rounds 20 --trust 0.25 "
        "--units foot --note 'two words' --folder else/where --weight 0.5 --sensors 3 --sensors 1 "
        "--loud --out out"
    )
    assert not any(b"98765" in path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert "98765" not in repr(OfEveryKind(secret=98765))
    before = (tmp_path / "out/models.csv").read_bytes()
    words = shlex.split(config["command"])
    assert solve(*words[words.index("--rounds") + 2 :], "--overwrite").code == 0
    assert (tmp_path / "out/models.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"units": "mile"}, "units must be one of 'metre' and 'foot', but it is 'mile'."),
        ({"weight": "some"}, "weight must be a number or auto, but it is 'some'."),
        ({"trust": 2.0}, "trust must be less than 1, but it is 2."),
        ({"rounds": 2.5}, "rounds must be a whole number, but it is 2.5."),
    ],
)
def test_settings_from_python_are_told_by_their_own_names(given, sentence):
    with pytest.raises(InputError) as refused:
        OfEveryKind(**given)
    assert str(refused.value) == sentence


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
    settings, path = LocalizationSettings(rounds=20), tmp_path / "mine.csv"
    found = solve_file(settings, path, stages)
    with claimed_folder(settings, path, tmp_path / "out") as folder:
        written = write_solution(found, path, folder, stages)
    assert told == list(stages.seconds)
    assert told[0] == "reading"
    assert len(told) == 4
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(written)


def test_numbers_that_json_has_not_are_words(tmp_path):
    (tmp_path / "mine.csv").write_text(RANGES)
    settings, path = LocalizationSettings(rounds=20), tmp_path / "mine.csv"
    found = solve_file(settings, path, Stages())
    strange = {"a": np.float32("inf"), "b": [math.nan, np.int64(3)], "c": {"d": tmp_path}}
    object.__setattr__(found, "result", strange)
    with claimed_folder(settings, path, tmp_path, overwrite=True) as folder:
        write_solution(found, path, folder, Stages(), overwrite=True)
    result = config_of(tmp_path)["result"]
    assert result == {"a": "inf", "b": ["nan", 3], "c": {"d": str(tmp_path)}}


@pytest.mark.parametrize(
    ("rounds", "records", "every"),
    [(19, 20, 1), (50, 20, 2), (400, 20, 20), (401, 20, 1), (MOST_ROUNDS, 20, 1)],
)
def test_records_are_at_least_so_many(rounds, records, every):
    assert spacing(rounds, records) == every
