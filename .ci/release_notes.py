"""Print the changelog's section of the version, and check that all places name that version."""

import re
import sys
from pathlib import Path


def main(folder: str) -> None:
    """Check and print, or exit with one sentence."""
    root = Path(folder)
    code = (root / "fedjax_admm/_version.py").read_text("utf-8")
    version = re.search(r'__version__ = "(.*)"', code)[1]  # pyright: ignore
    if f"version: {version}\n" not in (root / "CITATION.cff").read_text("utf-8"):
        sys.exit(f"CITATION.cff does not name version {version}")
    sections = re.split(r"^## ", (root / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    own = [text for text in sections if text.startswith(f"{version} ")]
    if not own:
        sys.exit(f"CHANGELOG.md has no section of version {version}")
    print(own[0])


if __name__ == "__main__":
    main(sys.argv[1])
