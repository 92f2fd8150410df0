"""All pages that follow from the package, written into `generated/` before a build."""

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

from site_pages.commands import command_pages
from site_pages.gallery import gallery_pages
from site_pages.places import notebook_page
from site_pages.reference import reference_pages

ROOT = Path(__file__).parents[2]


def write_pages(docs: Path) -> None:
    """Write the pages into `generated/`, and take away those that are none any more.

    Files whose text is as it was are left alone, so that Sphinx need not read them again.
    """
    folder = docs / "generated"
    written = {
        folder / name: text
        for pages in (reference_pages(), command_pages(), gallery_pages(docs))
        for name, text in pages
    }
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    for path in sorted(folder.rglob("*")):
        copies = {copy.with_suffix("") for copy, _ in _notebooks(folder)}
        if path.is_file() and path not in written and path.with_suffix("") not in copies:
            path.unlink()
    for copy, notebook in _notebooks(folder):
        copy.parent.mkdir(exist_ok=True)
        text = notebook_page(notebook)
        if not copy.exists() or copy.read_text("utf-8") != text:
            copy.write_text(text, "utf-8")
            copy.with_suffix(".png").write_bytes(_first_picture(notebook))


def _notebooks(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield where each notebook is copied to, and the notebook."""
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        yield folder / "notebooks" / notebook.name, notebook


def _first_picture(notebook: Path) -> bytes:
    """Return the first figure of a notebook, for the page of all."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    return b64decode(next(data["image/png"] for data in outputs if "image/png" in data))
