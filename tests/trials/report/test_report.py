"""A report needs nothing from elsewhere, escapes what users wrote, and has the runs' numbers."""

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from fedjax_admm.trials import results
from fedjax_admm.trials.report import write_report
from tests.trials.results.made import made, write

# `tests/cli/test_looking.py` writes a page in every run.
pytestmark = pytest.mark.thorough

EVIL = "<script>alert(1)</script>"
EVIL_METHODS = (f"a{EVIL}", 'b"><img src=x onerror=alert(2)>', "c --> </svg></style></title> &amp;")
VOID = {"meta", "img"}


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

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append((self.open[-1] if self.open else "", data))

    def texts(self, tag):
        return [data for owner, data in self.words if owner == tag]


def evil(rate):
    values = np.random.default_rng(0).lognormal(size=(2, 4, 2))
    run = made(
        values,
        trials=4,
        methods=EVIL_METHODS,
        title=f"title {EVIL}",
        parameter_label=f"share {EVIL}",
        metrics={"error": f'error "{EVIL}" in m', "objective": "<b>"},
        findings=f"findings {EVIL} & <i>more</i>",
        measured_on=f"data {EVIL}",
        paper=EVIL,
        statement=EVIL,
        command=f"fedjax-admm run {EVIL}",
        settings={"share": [0.1, 0.2], "data": EVIL, "rate": rate},
        source={"asked": EVIL, "again": EVIL, "file": EVIL, "distribution": None},
        seconds={"compile": 1.25, "run": 2.5, "total": 4.0},
    )
    wider = np.arange(2 * 4 * 2, dtype=float).reshape(2, 4, 2)
    run.arrays[f"{EVIL_METHODS[1]}/error"] = np.where(wider > 12, np.nan, wider)
    return run


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two runs with names that would do harm."""
    base = tmp_path_factory.mktemp("pages")
    for name, rate in (("first", 0.123456788), ("'<b>second", 0.123456789)):
        write(evil(rate), base / name)
    return [base / "first", base / "'<b>second"]


@pytest.fixture(scope="module")
def page(folders):
    write_report(folders, folders[0].parent / "page.html")
    return Seen((folders[0].parent / "page.html").read_text())


def test_a_page_needs_nothing_from_elsewhere_and_escapes_what_users_wrote(page):
    tags = [tag for tag, _ in page.elements]
    assert not {"script", "link", "iframe", "object", "form", "a", "i", "b"} & set(tags)
    assert tags.count("img") == 3
    for tag, attributes in page.elements:
        assert not {"href", "srcset", "action"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes), tag
        if "src" in attributes:
            kind, _, content = attributes["src"].partition("base64,")
            assert kind == "data:image/svg+xml;"
            assert b"</svg>" in base64.b64decode(content)
    policies = [each["content"] for _, each in page.elements if "http-equiv" in each]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; ")
    for method in EVIL_METHODS:
        assert page.texts("td").count(method) >= 2
    assert f"findings {EVIL} & <i>more</i>" in page.texts("li")
    assert f"Measured on data {EVIL}." in page.texts("p")
    assert f"fedjax-admm run {EVIL}" in page.texts("code")


def test_the_tables_hold_the_numbers_and_mark_what_differs(folders, page):
    numbers = results.overview(results.load(folders[0])).rows[0].numbers
    cells = page.texts("td")
    shown = ["0.1", "4", *map(results.number_text, (numbers.mean, numbers.standard_error))]
    assert cells[:5] == [EVIL_METHODS[0], *shown]
    # Of the second method at the second value, trials 2 and 3 are not finite at the last round.
    assert cells[3 * 9 + 8] == "2"
    assert [name for name in page.texts("th") if name.endswith("≠")] == ["settings: rate ≠"]
    told = "These runs differ in their settings: rate."
    assert any(told in words for words in page.texts("p"))
    assert {"1.25", "2.5", "4.0"} <= set(cells)


def test_other_experiments_and_default_figures_are_told(tmp_path):
    for name, experiment in (("usual", "consensus"), ("other", "another")):
        write(made(1, methods=("a",), experiment=experiment), tmp_path / name)
    write_report([tmp_path / "usual", tmp_path / "other"], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "cannot be compared: experiment is" in text
    assert re.search("This is not the experiment&#39;s own figure: there is no experiment", text)
