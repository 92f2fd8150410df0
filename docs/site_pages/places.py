"""Links to the repository, where a build has its address: of pages, and of notebooks to Colab."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / ".ci"))
import addresses

_INCLUDED = {"benchmarks": "benchmarks/README.md", "changelog": "CHANGELOG.md"}
_HERE = """
```{{button-link}} {colab}
:color: primary
Open in Colab
```
"""


def link_source(app, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Let a page show links by which its source is read and edited, and the repository's."""
    repository = context["repository"] = addresses.find()
    path = _source(pagename, context.get("page_source_suffix") or "")
    if repository and path:
        read = f"{repository}/blob/v{app.config.version}/{path}"
        context["theme_source_view_link"] = read
        context["theme_source_edit_link"] = f"{repository}/edit/main/{path}"


def notebook_page(path: Path) -> str:
    """Return a notebook, with a button below its title that opens the release's in Colab."""
    text = path.read_text("utf-8")
    repository = addresses.find()
    colab = (
        addresses.colab(repository, f"v{addresses.version()}", path.stem) if repository else None
    )
    if colab is None:
        return text
    notebook = json.loads(text)
    first = notebook["cells"][0]
    title, *rest = "".join(first["source"]).split("\n")
    first["source"] = "\n".join([title, _HERE.format(colab=colab), *rest])
    return json.dumps(notebook)


def _source(pagename: str, suffix: str) -> str | None:
    """Return the file of the repository that has a page; None of one that is generated."""
    if pagename.startswith("generated/notebooks/"):
        return f"notebooks/{Path(pagename).name}.ipynb"
    if not suffix or pagename.startswith("generated/"):
        return None
    return _INCLUDED.get(pagename, f"docs/{pagename}{suffix}")
