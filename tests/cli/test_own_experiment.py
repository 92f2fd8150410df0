"""Experiments in files of a user's own, in modules, and in installed plug-ins."""

import json
import pickle
import re
import shutil
import sys

import pytest

from fedjax_admm._host._store import Chunks
from fedjax_admm.trials import figures, run_experiment
from fedjax_admm.trials.experiments import find, find_again
from fedjax_admm.trials.running import Request, _running
from tests.cli.outcomes import called, stand_aside
from tests.cli.processes import same_results
from tests.trials.results.made import edit

FILE = """
from pathlib import Path
import jax, jax.numpy as jnp
from fedjax_admm.trials.experiments import DirectMethod, Experiment, Sweep
from beside import mean

SHIFT = float((Path(__file__).parent / "shift.txt").read_text())

def problem(settings, scale, key):
    return SHIFT + scale * jax.random.normal(key, (settings["size"],))

def distance(problem, answer):
    return {"distance": jnp.abs(answer - SHIFT)}

def methods(settings, scale):
    return {"mean": DirectMethod(mean, distance), "median": DirectMethod(jnp.median, distance)}

EXPERIMENT = Experiment(
    name="middle", title="how far off the middle is", sweep=Sweep("scale", "scale", (1.0, 2.0)),
    problem=problem, methods=methods, metrics={"distance": "distance"}, settings={"size": 5},
    trials=6, rounds=2, quick={"trials": 2, "rounds": 1},
)
"""
RUN = ("run", "my.py", "--batch", "2")


def write(folder, text=FILE, name="my.py"):
    """Write a user's file, what it imports, and what it reads."""
    folder.mkdir(exist_ok=True)
    (folder / "shift.txt").write_text("0.5")
    (folder / "beside.py").write_text("import jax.numpy as jnp\ndef mean(x): return jnp.mean(x)\n")
    (folder / name).write_text(text)
    return folder / name


@pytest.fixture(autouse=True)
def forget_what_was_imported(monkeypatch):
    """Every test has a folder of its own, and with it another `beside`."""
    path, known = list(sys.path), set(sys.modules)
    yield
    assert [folder for folder in sys.path if "site-plug" not in folder] == path
    for name in set(sys.modules) - known:
        if name.partition(".")[0] in ("beside", "mine", "plug", "plug2", "plug3"):
            del sys.modules[name]


@pytest.fixture
def undrawn(monkeypatch):
    """Most of the time of so small a run is its figure's."""
    monkeypatch.setattr(
        _running,
        "write_figure",
        lambda figure, results, out, *_, **__: (out / "figure.png").touch(),
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a file and of its finished run, made once: copy it."""
    folder = tmp_path_factory.mktemp("finished")
    write(folder)
    with pytest.MonkeyPatch.context() as patch:
        stand_aside(patch)
        outcome = called(folder, *RUN)
    assert outcome.code == 0, outcome.err
    assert "Wrote results/middle/figure.png" in outcome.out
    return folder


@pytest.fixture
def config(finished):
    return json.loads((finished / "results/middle/config.json").read_text())


# Files


def test_a_run_tells_where_its_experiment_was_found(finished, config):
    file = finished / "my.py"
    assert config["experiment"] == "middle"
    assert config["source"] == {
        "asked": "my.py",
        "again": str(file),
        "file": str(file),
        "distribution": None,
    }
    assert re.fullmatch("[0-9a-f]{64}", config["digest"])
    assert config["command"].startswith(f"fedjax-admm run {file} --trials 6 ")
    assert config["metrics"]["numbers_up"] == "numbers sent by all clients"
    assert (finished / "results/middle/figure.png").stat().st_size > 10_000


def test_show_tells_of_a_file(command, tmp_path):
    write(tmp_path)
    outcome = command("show", "my.py")
    assert (outcome.code, outcome.err) == (0, "")
    title, place, *_ = outcome.out.splitlines()
    assert title == "middle: how far off the middle is"
    assert place == f"from {tmp_path}/my.py"
    for word in ("size", "mean", "median", "distance", "2 trials of 1"):
        assert f"  {word}" in outcome.out or word in outcome.out
    assert "findings" not in outcome.out


@pytest.mark.thorough
def test_plot_draws_again_with_a_changed_figure_and_says_so(
    command, finished, tmp_path, monkeypatch
):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    run = tmp_path / "results/middle"
    (run / "figure.png").unlink()
    assert command("plot", run).mistake() == (
        f"middle stands in '{finished}/my.py', a program that is run only where it is named; if "
        "you trust it, name it with --experiment."
    )
    assert not (run / "figure.png").exists()
    outcome = command("plot", run, "--experiment", "my.py")
    assert (outcome.code, outcome.out) == (
        0,
        f"Wrote {run}/figure.png, figure.pdf and figure.txt\n",
    )
    assert (run / "figure.png").stat().st_size > 10_000
    monkeypatch.setattr(figures, "write_figure", lambda *_, **__: None)
    write(tmp_path, FILE + "\n# another figure\n")
    told = command("plot", run, "--experiment", "my.py").out
    assert told.endswith(f"; {tmp_path}/my.py has changed since the run\n")
    sentence = (
        "--experiment must be 'middle', of which these results are, but it is 'fsmdm-cauchy'."
    )
    assert command("plot", run, "--experiment", "fsmdm-cauchy").mistake() == sentence
    (tmp_path / "my.py").unlink()
    # The numbers are there without the file.
    outcome = command("compare", run)
    assert outcome.out.startswith("distance minus that of mean in ")


def test_compare_tells_that_the_file_has_changed_between_two_runs(command, finished, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(finished / "results/middle", tmp_path / name)
    assert "runs differ" not in command("compare", "one", "two").out
    edit(tmp_path / "two", digest="0" * 64)
    outcome = command("compare", "one", "two")
    assert outcome.code == 0
    told = "These runs differ in their file of the experiment. They are paired, and"
    assert outcome.out.splitlines()[1].startswith(told)


def begin(monkeypatch, folder):
    """Begin the run of a file, as the command does, and stop after one of three chunks."""
    save = Chunks.write

    def stopping(self, first, *what):
        if first:
            raise KeyboardInterrupt
        save(self, first, *what)

    experiment, out = find("my.py"), folder / "results/middle"
    with monkeypatch.context() as patch:
        patch.setattr(Chunks, "write", stopping)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(experiment, Request(batch=1), out, resume=False, progress=False)


@pytest.mark.thorough
@pytest.mark.usefixtures("undrawn")
def test_a_run_goes_on_unless_its_file_has_changed(command, monkeypatch, tmp_path):
    write(tmp_path)
    begin(monkeypatch, tmp_path)
    (kept,) = tmp_path.glob("results/middle/chunks/0*.npz")
    before = kept.stat().st_mtime_ns
    write(tmp_path, FILE + "\n# changed\n")
    sentence = command("run", "my.py", "--resume").mistake()
    assert sentence == (
        f"results/middle was begun with other contents of {tmp_path}/my.py; restore that file or "
        "choose another --out."
    )
    write(tmp_path)
    assert kept.stat().st_mtime_ns == before
    assert command("run", "my.py", "--resume").code == 0
    assert command("run", "my.py", "--batch", "1", "--out", "whole").code == 0
    assert same_results(tmp_path / "results/middle", tmp_path / "whole")


def test_a_file_is_imported_once_under_a_name_of_its_own(monkeypatch, tmp_path):
    path = write(tmp_path)
    first, second = find(str(path)), find(str(path))
    assert first.problem is second.problem  # what is compiled stays compiled
    assert pickle.loads(pickle.dumps(first.methods)) is first.methods
    assert first.problem.__module__.startswith("my_")
    write(tmp_path, FILE.replace("size", "number"))
    changed = find(str(path))
    assert list(changed.settings) == ["number"]
    assert changed.problem.__module__ == first.problem.__module__
    assert not list(tmp_path.glob("__pycache__/my*"))  # older bytecode could run instead


MORE = FILE.replace("EXPERIMENT =", "one =") + (
    "\nfrom dataclasses import replace\nEXPERIMENTS = [one, replace(one, name='other')]\n"
    "EXTRA = replace(one, name='extra')\n"
)


def test_one_of_several_is_named(command, tmp_path):
    write(tmp_path, MORE)
    sentence = command("show", "my.py").mistake()
    assert sentence == "my.py has several experiments; name one of my.py:middle, my.py:other."
    for asked, name in (("other", "other"), ("one", "middle"), ("EXTRA", "extra")):
        outcome = command("show", f"my.py:{asked}")
        assert outcome.out.startswith(f"{name}: how far off")
    sentence = command("show", "my.py:third").mistake()
    assert "my.py has no experiment 'third'; it has " in sentence
    assert find(f"{tmp_path}/my.py:other").origin.again == f"{tmp_path}/my.py:other"


BARE = FILE.replace("EXPERIMENT =", "one =")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = 1\nb = = 2\n", r"my.py cannot be imported: SyntaxError in line 2: invalid syntax"),
        ("a = 1\n\n1 / 0\n", r"my.py cannot be imported: ZeroDivisionError in line 3: division"),
        (BARE, r"my.py has no EXPERIMENT and no EXPERIMENTS; name an Experiment so, or run"),
        ("EXPERIMENT = 3", r"^EXPERIMENT in my.py must be an Experiment or a .* but it is 3\.$"),
        (
            FILE.replace("middle", "fsmdm-cauchy"),
            r"my.py names its experiment 'fsmdm-cauchy', as one",
        ),
        (FILE.replace('{"distance": "', '{"error": "'), r"methods of middle measure distance, but"),
        (
            FILE.replace('(settings["size"],)', "(int(scale),)"),
            r"^middle: \w+ in line 10: scale, which is swept, is a traced .*; write Sweep\(",
        ),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line(command, tmp_path, text, sentence):
    write(tmp_path, text)
    (tmp_path / "broken.py").write_text("\nunknown\n")
    assert re.search(sentence, command(*RUN).mistake())
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("there.py", "there is no file there.py."),
        ("my", "there is no experiment 'my'; did you mean my.py?"),
        ("nowhere.deeper:x", "there is no module nowhere; install it or run from the folder"),
        ("json:dumps", "dumps in json must be an Experiment or a sequence of them, but it is <f"),
    ],
)
def test_a_name_that_is_nothing_is_told(command, tmp_path, name, sentence):
    write(tmp_path)
    assert command("show", name).mistake().startswith(sentence)


def test_a_figure_that_fails_loses_nothing(command, tmp_path):
    drawn = "\ndef draw(results):\n    return results.nothing\n"
    broken = FILE.replace("EXPERIMENT =", drawn + "\nEXPERIMENT =")
    broken = broken.replace('name="middle"', 'name="middle", figure=draw')
    write(tmp_path, broken)
    sentence = command(*RUN, "--quick").mistake()
    line = broken[: broken.index("results.nothing")].count("\n") + 1
    assert sentence == (
        f"the figure of middle cannot be drawn: AttributeError in line {line}: 'Results' object "
        "has no attribute 'nothing'; repair it and draw the results that are there with "
        "`fedjax-admm plot DIR --experiment my.py`."
    )
    again = command("plot", "results/middle", "--experiment", "my.py").mistake()
    assert again == sentence.replace("--experiment my.py", "--experiment my.py:middle")
    config = json.loads((tmp_path / "results/middle/config.json").read_text())
    assert config["status"] == "finished"
    assert sorted(path.name for path in (tmp_path / "results/middle").iterdir()) == [
        "chunks",
        "config.json",
        "summary.csv",
        "trials.npz",
    ]


# Modules


@pytest.mark.usefixtures("undrawn")
def test_a_module_below_the_working_directory(command, tmp_path):
    write(tmp_path / "mine", MORE, name="sizes.py")
    shutil.move(tmp_path / "mine/beside.py", tmp_path / "beside.py")
    outcome = command("run", "mine.sizes:other", "--quick", "--batch", "2")
    assert outcome.code == 0, outcome.err
    config = json.loads((tmp_path / "results/other/config.json").read_text())
    assert config["source"]["again"] == "mine.sizes:other"
    assert config["source"]["file"] == f"{tmp_path}/mine/sizes.py"
    assert len(config["digest"]) == 64
    assert config["command"].startswith("fedjax-admm run mine.sizes:other ")
    assert find_again(config, "mine.sizes:other").name == "other"
    assert find("mine.sizes:EXTRA").name == "extra"


# Plug-ins


@pytest.fixture
def install(monkeypatch, tmp_path):
    """Install a distribution that offers experiments, as pip would leave it."""

    def call(name, points, text):
        site = tmp_path / f"site-{name}"
        info = site / f"{name}-1.5.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        lines = [f"{point} = {value}" for point, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[fedjax_admm.experiments]", *lines]))
        write(site, text, name=f"{name}.py")
        monkeypatch.syspath_prepend(site)

    return call


def test_an_installed_plug_in_is_listed_and_found(command, install):
    install("plug", {"sizes": "plug"}, MORE)
    outcome = command("list")
    assert (outcome.code, outcome.err) == (0, "")
    listed = " ".join(outcome.out.partition("Others")[2].split())
    assert re.findall(r"(\w+) \d+ (?!\w+ \d+ ).*?\(from plug 1\.5\)", listed) == ["middle", "other"]
    assert command("show", "middle").out.splitlines()[1] == "from plug 1.5"
    origin = find("middle").origin
    assert (origin.asked, origin.again, origin.distribution) == ("middle", "middle", "plug 1.5")
    assert len(origin.digest) == 64


def test_a_plug_in_cannot_take_the_name_of_another(command, install):
    install("plug", {"taken": "plug"}, FILE.replace("middle", "fsmdm-cauchy"))
    outcome = command("list")
    assert outcome.code == 0
    assert outcome.err == (
        "fedjax-admm: the plug-in taken of plug 1.5 names an experiment 'fsmdm-cauchy', as "
        "another one does.\n"
    )
    assert find("fsmdm-cauchy").origin is None


@pytest.mark.parametrize(
    ("value", "text", "sentence"),
    [
        ("plug", "1 / 0", "the plug-in sizes of plug 1.5 cannot be loaded: ZeroDivisionError: "),
        ("plug:x", "x = 3", "plug:x, which the plug-in sizes of plug 1.5 names, must be an "),
    ],
)
def test_a_plug_in_that_cannot_be_used_disturbs_nobody(command, install, value, text, sentence):
    install("plug", {"sizes": value}, text)
    outcome = command("list")
    assert outcome.code == 0
    assert "fsmdm-cauchy" in outcome.out
    assert outcome.err.startswith(f"fedjax-admm: {sentence}")
    assert command("show", "fsmdm-cauchy").code == 0
    assert command("show", "sizes").mistake().startswith(sentence)
