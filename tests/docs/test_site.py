"""The built site: whole, without a network, read in a real browser.

`make -C docs html` builds it first, with warnings as errors; `.ci/run` does so before these tests.
"""

import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.browser import Browser
from tests.package.sources import ROOT

pytestmark = pytest.mark.thorough
SITE = Path(os.environ.get("FEDJAX_ADMM_SITE") or ROOT / "docs" / "_build" / "html")
SEEN = (  # the pages of which pictures are taken
    "index",
    "explanation/fsmdm",
    "generated/reference/fedjax_admm.solvers",
    "generated/reference/kernels/prox_mcp",
    "generated/gallery",
    "howto/own-problem",
)
FIRST_HITS = {  # what people search for, and the page that answers
    "stopping criterion": "howto/own-problem.html",
    "asynchronous": "howto/messages.html",
    "FedAvg": "explanation/averaging.html",
    "minibatch": "howto/own-problem.html",
    "install": "start.html",
    "own loss": "howto/own-problem.html",
    "prox_mcp": "generated/reference/kernels/prox_mcp.html",
    "FedADMM": "explanation/fed_admm.html",
    "accountant": "howto/privacy.html",
    "trimmed mean": "howto/messages.html",
    "batch norm": "howto/batch-norm.html",
    "interval": "howto/localization.html",
}


@pytest.fixture(scope="module")
def site():
    """The folder of the built site."""
    if not (SITE / "index.html").exists():
        pytest.skip("the site is not built: pip install -e '.[docs]' && make -C docs html")
    return SITE


class Page(HTMLParser):
    """What a page links to, loads and names."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.names, self.text = [], [], set(), text
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.names |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        loads = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
        if tag in loads and found.get(loads[tag]):
            self.loaded.append(found[loads[tag]])


@pytest.fixture(scope="module")
def pages(site):
    """Every page by its path, parsed; the listings of source files are left out."""
    paths = [path for path in site.rglob("*.html") if "_modules" not in path.parts]
    return {path: Page(path.read_text("utf-8")) for path in paths}


def test_links_within_the_site_lead_somewhere(pages, site):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            named = not parts.fragment or target not in pages
            if not target.exists() or not (named or unquote(parts.fragment) in pages[target].names):
                broken.append(f"{path.relative_to(site)} -> {link}")
    assert len(pages) > 250
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(pages):
    for path, page in pages.items():
        for address in page.loaded:
            assert not urlsplit(address).scheme or address.startswith("data:"), (path, address)


def test_every_public_name_is_told_once(site):
    pytest.importorskip("sphinx", reason="sphinx is not installed")
    from sphinx.util.inventory import InventoryFile

    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from site_pages.names import public_names, rooms
    finally:
        sys.path.pop(0)

    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", os.path.join)
    told = [
        name
        for kind, names in getattr(inventory, "data", inventory).items()
        if kind.startswith("py:") and kind != "py:module"
        for name in names
    ]
    for name in public_names():
        assert told.count(name.full) == 1, name.full
    # What other rooms offer of it leads there, and is not told a second time.
    for room, names in rooms().items():
        elsewhere = {f"{room}.{name}" for name in names} - {name.full for name in public_names()}
        assert not elsewhere & set(told)


class Searched:
    """The page of the search, asked for some words."""

    def __init__(self, site, words):
        self.address = f"{(site / 'search.html').as_uri()}?q={words.replace(' ', '+')}"

    def as_uri(self):
        """Return its address."""
        return self.address


def test_the_search_finds_a_kernel_by_what_it_is(site, tmp_path):
    document, _ = Browser(tmp_path).document(Searched(site, "minimax concave"))
    assert "kernels/prox_mcp.html" in document


def test_the_first_hit_of_a_search_is_the_page_that_answers(site, tmp_path):
    browser, found = Browser(tmp_path), {}
    for words in FIRST_HITS:
        document, _ = browser.document(Searched(site, words))
        hits = document.partition('class="search"')[2]
        found[words] = re.search('<a href="([^"#?]*)', hits)[1]
    assert found == FIRST_HITS


@pytest.mark.parametrize("name", SEEN)
def test_a_page_is_readable_wide_and_narrow(name, site, tmp_path):
    browser = Browser(tmp_path)
    page = site / f"{name}.html"
    document, console = browser.document(page)
    assert console == []
    assert '<g data-mml-node="merror"' not in document
    if name.startswith("explanation"):
        assert document.count("<mjx-container") > 20
    folder = Path(os.environ.get("FEDJAX_ADMM_SCREENSHOTS") or tmp_path)
    for width in (1280, 400):
        out = folder / f"{name.replace('/', '-')}-{width}.png"
        browser.picture(page, out, width=width, height=1400)
    # A window has a least width, a frame has not.
    frame = tmp_path / "frame.html"
    frame.write_text(
        f"<iframe src='{page.as_uri()}' style='width:400px;height:800px;border:0'></iframe><script>"
        "onload = () => { const inner = document.querySelector('iframe').contentDocument;"
        "document.title = inner.documentElement.scrollWidth; }</script>"
    )
    document, _ = browser.document(frame, "--allow-file-access-from-files")
    assert "<title>400</title>" in document
