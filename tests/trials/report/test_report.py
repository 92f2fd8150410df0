"""A page of runs: whole in itself, escaped, and what it says is what the runs left."""

import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials import results
from fedjax_admm.trials.report import _page, _sections, write_report
from tests.package.sources import ROOT
from tests.trials.report.browser import Browser
from tests.trials.results.made import made, write

# `tests/cli/test_looking.py` writes a page in every run.
pytestmark = pytest.mark.thorough

EVIL = "<script>alert(1)</script>"
EVIL_METHODS = (f"a{EVIL}", 'b"><img src=x onerror=alert(2)>', "c --> </svg></style></title> &amp;")
VOID = {"meta", "br"}


class Seen(HTMLParser):
    """Every element of a page with its attributes, and its text; tags must close as they open."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.words, self.open = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append((self.open[-1] if self.open else "", data))

    def texts(self, tag):
        return [data for owner, data in self.words if owner == tag]


def values(trials=4):
    """Return errors that differ by method, swept value and trial: (sweep, trial, round)."""
    return np.random.default_rng(0).lognormal(size=(2, trials, 2))


def evil():
    found = made(
        values(),
        trials=4,
        methods=EVIL_METHODS,
        title=f"title {EVIL}",
        parameter_label=f"share {EVIL}",
        metrics={"error": f'error "{EVIL}" in m', "objective": "<b>"},
        findings=f"findings {EVIL} & <i>more</i>",
        paper=EVIL,
        statement=EVIL,
        command=f"fedjax-admm run {EVIL}",
        settings={"share": [0.1, 0.2], "data": EVIL, "rate": 0.123456788},
        source={"asked": EVIL, "again": EVIL, "file": EVIL, "distribution": None},
        seconds={"compile": 1.25, "run": 2.5, "total": 4.0},
    )
    wider = np.arange(2 * 4 * 2, dtype=float).reshape(2, 4, 2)
    found.arrays[f"{EVIL_METHODS[1]}/error"] = np.where(wider > 12, np.nan, wider)
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of two runs with names that would do harm, and where they lie."""
    base = tmp_path_factory.mktemp("pages")
    folders = [base / "first", base / "'<b>second"]
    for folder in folders:
        write(evil(), folder)
    changed = evil()
    changed.config["settings"]["rate"] = 0.123456789
    write(changed, folders[1])
    write_report(folders, base / "page.html")
    return base, folders


@pytest.fixture(scope="module")
def one(pages):
    """A page of the first of them."""
    base, folders = pages
    write_report(folders[:1], base / "one.html")
    return base / "one.html"


@pytest.fixture(scope="module")
def seen(pages):
    return Seen((pages[0] / "page.html").read_text())


def test_a_page_needs_nothing_from_elsewhere(pages, seen):
    for tag, attributes in seen.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "a")
        for name, value in attributes.items():
            assert name not in ("src", "srcset", "action")
            assert not name.startswith("on"), (tag, name)
            if name in ("href", "xlink:href"):
                assert value.startswith("#")
    text = (pages[0] / "page.html").read_text()
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    addresses = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\s\"<]+", text)) == addresses
    assert "@import" not in text
    (policy,) = [
        attributes["content"]
        for tag, attributes in seen.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; ")


def test_what_users_wrote_stays_text(seen):
    tags = [tag for tag, _ in seen.elements]
    assert tags.count("script") == 1
    # One is ours, the others are drawings' own.
    assert tags.count("style") == 1 + tags.count("svg")
    assert tags.count("svg") == 3
    assert "i" not in tags
    assert "b" not in tags
    for method in EVIL_METHODS:
        assert seen.texts("td").count(method) >= 2
    assert f"findings {EVIL} & <i>more</i>" in seen.texts("p")
    assert f"fedjax-admm run {EVIL}" in seen.texts("code")


def test_no_two_elements_have_one_name(seen):
    names = [attributes["id"] for _, attributes in seen.elements if "id" in attributes]
    assert len(names) > 50
    # Drawings share marks that are the same in all panels, each drawing its own.
    assert len(names) == len(set(names))
    reached = {
        value.removeprefix("#")
        for _, attributes in seen.elements
        for name, value in attributes.items()
        if name in ("href", "xlink:href")
    }
    assert reached <= set(names)


def test_the_table_holds_the_numbers_and_says_where_there_are_none(pages, one):
    text = one.read_text()
    found = re.findall(r'<td class="number" data-value="([^"]*)">([^<]*)</td>', text)
    run = results.load(pages[1][0])
    overview = results.overview(run)
    numbers = overview.rows[0].numbers
    expected = [0.1, 4, numbers.mean, numbers.standard_error, numbers.median]
    assert [float(value) for value, _ in found[:5]] == pytest.approx(expected)
    assert found[2][1] == results.number_text(numbers.mean)
    # The second method at the second value: trials 2 and 3 are not finite at the last round.
    assert found[3 * 8 + 7] == ("2.0", "2")
    assert ("", "-") not in found[:16]


def test_settings_that_differ_are_marked(pages, seen):
    text = (pages[0] / "page.html").read_text()
    rows = re.findall(r'<tr class="(differs|same)"><th scope="row">(\w+)', text)
    assert ("differs", "rate") in rows
    assert [name for kind, name in rows if kind == "differs"] == ["rate"]
    assert "Rows in which the runs differ are marked ≠." in seen.texts("p")
    told = "These runs differ in their settings: rate."
    assert any(told in words for words in seen.texts("p"))
    assert {"1.25", "2.5", "4.0"} <= set(seen.texts("td"))


def test_points_tell_their_numbers(pages, seen):
    titles = [words for words in seen.texts("title") if "\n" in words]
    run = results.load(pages[1][0])
    mean = results.overview(run).rows[0].numbers.mean
    label = f'error "{EVIL}" in m'
    assert f"{EVIL_METHODS[0]}\nshare {EVIL}: 0.1\n{label}: {mean:.4g}" in titles
    # A row of the forest plot is called by its swept value, not by its place.
    assert any(words.endswith("\nshare: 0.2") for words in titles)
    assert not any(re.search(r"\nshare: [1-9]", words) for words in titles)
    circles = [attributes for tag, attributes in seen.elements if tag == "circle"]
    assert len(circles) == len(titles)


def test_the_same_runs_give_the_same_bytes(pages, one):
    base, folders = pages
    write_report(folders[:1], base / "again.html")
    assert (base / "again.html").read_bytes() == one.read_bytes()


def test_unfinished_runs_and_other_experiments_are_told(tmp_path):
    for name, experiment in (("usual", "consensus"), ("other", "another")):
        write(made(1, methods=("a",), experiment=experiment), tmp_path / name)
    write_report([tmp_path / "usual", tmp_path / "other"], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "cannot be compared: experiment is" in text
    assert "there is no experiment &#x27;another&#x27;" in text
    assert "This is the usual figure, not that of the experiment" in text


def test_a_figure_of_an_own_file_is_drawn_where_it_is_named(tmp_path):
    source = {"asked": "a.py", "again": "/gone/a.py", "file": "/gone/a.py", "distribution": None}
    write(made(1, methods=("steady",), source=source), tmp_path / "run")
    write_report([tmp_path / "run"], tmp_path / "unnamed.html")
    text = (tmp_path / "unnamed.html").read_text()
    assert "a program that is run only where it is named" in text
    assert "if you trust it, name it with --experiment" in text
    own = "from tests.trials.small import EXPERIMENT\n"
    (tmp_path / "own.py").write_text(own)
    named = {"experiment": str(tmp_path / "own.py")}
    write_report([tmp_path / "run"], tmp_path / "named.html", **named)
    assert "usual figure" not in (tmp_path / "named.html").read_text()
    with pytest.raises(InputError, match=r"gone\.py"):
        write_report([tmp_path / "run"], tmp_path / "none.html", experiment="gone.py")


def test_a_run_of_very_many_rows_shows_its_first_metric(tmp_path, monkeypatch):
    monkeypatch.setattr(_sections, "MOST_ROWS", 69)
    sweep = tuple(range(1, 11))
    write(made(1, sweep=sweep, rounds=(5,), trials=1, methods=("a",)), tmp_path / "run")
    write_report([tmp_path / "run"], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "7 other metrics are in summary.csv: 70 rows are too many." in text
    assert text.count("<tr><td") == 10


def test_a_file_that_is_there_is_kept(tmp_path):
    write(made(1, methods=("a",)), tmp_path / "run")
    folders = [tmp_path / "run"]
    out = tmp_path / "page.html"
    out.write_text("mine")
    with pytest.raises(InputError, match="is there already; choose another out, or have it"):
        write_report(folders, out)
    assert out.read_text() == "mine"
    write_report(folders, out, overwrite=True)
    link = tmp_path / "link.html"
    link.symlink_to(out)
    before = out.read_bytes()
    with pytest.raises(InputError, match="is a link, and nothing is written through links"):
        write_report(folders, link, overwrite=True)
    assert out.read_bytes() == before
    with pytest.raises(InputError, match="has no metric 'x'"):
        write_report(folders, tmp_path / "none.html", metric="x")
    with pytest.raises(InputError, match="nothing to show"):
        write_report([], tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()


def test_the_wheel_holds_style_and_script():
    folder = Path(_page.__file__).parent
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names = config["tool"]["setuptools"]["package-data"]["fedjax_admm.trials.report"]
    others = {path.name for path in folder.iterdir() if path.suffix in (".css", ".js")}
    assert set(names) == others


# In a real browser

_COLUMN = "[...document.querySelector('table.sortable').tBodies[0].rows].map(r => r.cells[{}]"
_PRESS = "document.querySelectorAll('table.sortable th button')[{}].click()"


@pytest.mark.thorough
def test_a_browser_shows_it_without_errors_and_sorts_its_tables(pages, tmp_path):
    browser, page = Browser(tmp_path), pages[0] / "page.html"
    document, console = browser.document(page)
    assert console == []
    assert document.count("<button") == 9 * 8 * 2  # columns, metrics, runs
    # What would be fetched or run is refused, and would have been seen.
    bad = tmp_path / "bad.html"
    extra = "<img src='https://localhost/x.png'><script>document.title = 1</script>"
    bad.write_text(page.read_text().replace("</body>", f"{extra}</body>"))
    _, console = browser.document(bad)
    assert len(console) == 2
    assert all("Content Security Policy" in line for line in console)

    assert browser.answer(page, "performance.getEntriesByType('resource').length") == "0"
    mean = _COLUMN.format(3) + ".dataset.value).join()"
    for presses, sign in ((1, 1), (2, -1)):
        pressed = ", ".join([_PRESS.format(3)] * presses)
        found = [float(text) for text in browser.answer(page, f"({pressed}, {mean})").split(",")]
        assert len(found) == 6
        assert found == sorted(found, reverse=sign < 0)
    names = _COLUMN.format(0) + ".textContent[0]).join('')"
    assert browser.answer(page, f"({_PRESS.format(0)}, {_PRESS.format(0)}, {names})") == "ccbbaa"
    # A finger on a point: its numbers stand under the figure.
    touched = (
        "(document.querySelector('.points circle').dispatchEvent(new Event('click', "
        "{bubbles: true})), document.querySelector('output').textContent)"
    )
    assert re.search(r", share .*: 0\.1, error .*: \d", browser.answer(page, touched))


@pytest.mark.thorough
def test_a_page_fits_a_telephone_and_the_dark(pages, tmp_path):
    browser, page = Browser(tmp_path), pages[0] / "page.html"
    assert browser.overflow(page, 400) == 0
    wide = tmp_path / "wide.html"
    wide.write_text(page.read_text().replace("</main>", "<pre style='width:900px'></pre></main>"))
    assert browser.overflow(wide, 400) > 400
    colour = "getComputedStyle(document.body).backgroundColor"
    assert browser.answer(page, colour) == "rgb(255, 255, 255)"
    browser.picture(page, tmp_path / "light.png")
    dark = "--blink-settings=preferredColorScheme=0"
    browser.picture(page, tmp_path / "dark.png", dark)
    from matplotlib.image import imread

    corners = [imread(tmp_path / f"{name}.png")[2, 2, :3].mean() for name in ("light", "dark")]
    assert corners[0] == 1
    assert corners[1] < 0.15
