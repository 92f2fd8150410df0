"""The site has a folder per version, and files that join them."""

import json
import subprocess
import sys

import pytest

import fedjax_admm
from tests.package.sources import ROOT


def page(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")


@pytest.fixture
def site(tmp_path):
    for version in ("0.2.0", "0.10.0", "0.11.0rc1"):
        page(tmp_path, f"{version}/index.html", version)
        page(tmp_path, f"{version}/howto/own.html", version)
    page(tmp_path, "stable/gone.html", "a page that no version has any more")
    join(tmp_path)
    return tmp_path


def join(folder):
    subprocess.run([sys.executable, str(ROOT / ".ci" / "versions.py"), str(folder)], check=True)


def target(path):
    """Return the page to which a page leads."""
    lead = path.read_text("utf-8").split("0; url=")[1].split('"')[0]
    return (path.parent / lead).resolve().read_text("utf-8")


def test_versions_are_listed_from_the_newest_and_the_newest_release_is_stable(site):
    listed = json.loads((site / "versions.json").read_text())
    assert [each["version"] for each in listed] == ["0.11.0rc1", "0.10.0", "0.2.0"]
    assert [each["stable"] for each in listed] == [False, True, False]
    assert all((site / each["url"] / "index.html").exists() for each in listed)
    assert '"version": "0.10.0"' in (site / "versions.js").read_text()


def test_every_page_of_the_newest_release_has_an_address_that_stays(site):
    assert target(site / "stable" / "howto" / "own.html") == "0.10.0"
    assert target(site / "stable" / "index.html") == "0.10.0"
    assert target(site / "index.html") == "0.10.0"
    assert not (site / "stable" / "gone.html").exists()


def test_a_second_release_joins_the_first_on_the_branch(tmp_path):
    git = ("git", "-C", str(tmp_path / "remote"))
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "remote")], check=True)
    version = fedjax_admm.__version__
    for text in ("first", "second"):
        page(tmp_path, f"site/{version}/index.html", text)
        command = [str(ROOT / ".ci" / "pages"), str(tmp_path / "site"), str(tmp_path / "remote")]
        subprocess.run(command, check=True)
    shown = [*git, "show", f"gh-pages:{version}/index.html"]
    assert subprocess.run(shown, capture_output=True, text=True, check=True).stdout == "second"
    log = subprocess.run([*git, "log", "--format=%s", "gh-pages"], capture_output=True, text=True)
    assert log.stdout.splitlines() == [f"Site of {version}"] * 2
