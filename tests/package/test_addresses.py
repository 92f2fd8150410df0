"""A build names the repository's address where somebody gives one, and none where nobody does."""

import runpy
import shutil
import tomllib
from types import SimpleNamespace

import pytest

from tests.package.sources import ROOT

addresses = SimpleNamespace(**runpy.run_path(str(ROOT / ".ci" / "addresses.py")))
PLACE = "https://example.org/owner/name"  # stands for an address; example.org is nobody's


@pytest.fixture
def copy(tmp_path):
    """The files that name addresses, and the version."""
    for name in ("README.md", "pyproject.toml", "CITATION.cff", "fedjax_admm/_version.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def test_relative_links_and_images_become_absolute_and_nothing_else_changes():
    text = """![A figure](docs/a.png), [a page](docs/b.md#part), [a folder](notebooks)

[A paper](https://arxiv.org/abs/1), [a part](#part), <mailto:nobody@example.org>

```python
rows[0](x), "![kept](as it is)", "[kept](too)"
```
"""
    found = addresses.absolute(text, PLACE, "v1.2")
    wanted = text.replace("docs/a", f"{PLACE}/raw/v1.2/docs/a")
    wanted = wanted.replace("docs/b", f"{PLACE}/blob/v1.2/docs/b")
    assert found == wanted.replace("(notebooks", f"({PLACE}/blob/v1.2/notebooks")


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"FEDJAX_ADMM_REPOSITORY": PLACE, "GITHUB_REPOSITORY": "a/b"}, PLACE),
        ({"FEDJAX_ADMM_REPOSITORY": "git@example.org:owner/name.git"}, PLACE),
        ({"FEDJAX_ADMM_REPOSITORY": "https://user:secret@example.org/owner/name/"}, PLACE),
        ({"GITHUB_SERVER_URL": "https://example.org", "GITHUB_REPOSITORY": "owner/name"}, PLACE),
        ({}, None),
    ],
)
def test_the_address_is_the_first_that_is_given(environment, found, tmp_path):
    assert addresses.find(environment, tmp_path) == found


def test_the_files_of_a_build_name_the_address(copy):
    addresses.write(copy, PLACE, "v1.2")
    urls = tomllib.loads((copy / "pyproject.toml").read_text())["project"]["urls"]
    assert urls == {
        "Homepage": PLACE,
        "Documentation": f"{PLACE}/blob/v1.2/docs/index.md",
        "Repository": PLACE,
        "Issues": f"{PLACE}/issues",
        "Changelog": f"{PLACE}/blob/v1.2/CHANGELOG.md",
    }
    readme = (copy / "README.md").read_text()
    assert f"]({PLACE}/raw/v1.2/docs/static/front.png)" in readme
    assert f"In a clone of [the repository]({PLACE})" in readme
    prose = "".join(readme.split("```")[::2])
    assert all(part.startswith("http") for part in prose.split("](")[1:])
    assert (copy / "CITATION.cff").read_text().endswith(f'\nrepository-code: "{PLACE}"\n')


def test_github_serves_the_site_and_colab_opens_notebooks_of_github_alone():
    forge = "https://github.com/Owner/name"
    assert addresses.project_urls(forge, "v1")["Documentation"] == (
        "https://owner.github.io/name/stable/"
    )
    assert addresses.colab(forge, "v1", "paths") == (
        "https://colab.research.google.com/github/Owner/name/blob/v1/notebooks/paths.ipynb"
    )
    assert addresses.colab(PLACE, "v1", "paths") is None


def test_no_address_stands_in_the_sources():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "urls" not in project
    assert "repository-code" not in (ROOT / "CITATION.cff").read_text()
