"""Join the sites of several versions, which lie in FOLDER/VERSION/.

python .ci/versions.py FOLDER writes `versions.json`; `versions.js`, by which the sidebar of every
page lists the versions, also where the site is opened as files; `stable/`, whose pages lead to
those of the newest release; and an index that leads there.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

NUMBER = re.compile(r"(\d+)\.(\d+)\.(\d+)(.*)")
LEADS = """\
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>fedjax-admm</title>
<meta http-equiv="refresh" content="0; url={to}">
<link rel="canonical" href="{to}">
<script>location.replace("{to}" + location.search + location.hash)</script>
<a href="{to}">fedjax-admm</a>
</html>
"""
LIST = """\
{{
  const versions = {versions};
  const here = new URL(".", document.currentScript.src);
  const place = document.querySelector("#versions ul");
  for (const {{ version, url, stable }} of versions) {{
    const link = document.createElement("a");
    link.href = new URL(url + "index.html", here);
    link.textContent = version + (stable ? " (stable)" : "");
    place.appendChild(document.createElement("li")).appendChild(link);
  }}
}}
"""


def main(folder: str) -> None:
    """Write the files that join the versions."""
    root = Path(folder)
    found = [
        path.parent for path in root.glob("*/index.html") if NUMBER.fullmatch(path.parent.name)
    ]
    found.sort(key=_order, reverse=True)
    newest = next((path for path in found if not NUMBER.fullmatch(path.name)[4]), found[0])
    versions = [
        {"version": path.name, "url": f"{path.name}/", "stable": path == newest} for path in found
    ]
    text = json.dumps(versions, indent=2)
    (root / "versions.json").write_text(f"{text}\n", "utf-8")
    (root / "versions.js").write_text(LIST.format(versions=text.replace("\n", "\n  ")), "utf-8")
    (root / ".nojekyll").touch()  # else GitHub leaves out folders whose names begin with "_"
    shutil.rmtree(root / "stable", ignore_errors=True)
    for page in sorted(newest.rglob("*.html")):
        _lead(root / "stable" / page.relative_to(newest), page)
    _lead(root / "index.html", newest / "index.html")


def _order(path: Path) -> tuple[int, int, int, bool, str]:
    """Return what versions are sorted by: 0.2.0rc1 comes before 0.2.0."""
    major, minor, patch, rest = NUMBER.fullmatch(path.name).groups()
    return int(major), int(minor), int(patch), not rest, rest


def _lead(page: Path, to: Path) -> None:
    """Write a page that leads to another one."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(LEADS.format(to=Path(os.path.relpath(to, page.parent)).as_posix()), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
