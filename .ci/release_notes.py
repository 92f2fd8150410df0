"""Print the changelog's section of the version, and check that all places name that version."""

import re
import sys
from pathlib import Path

import addresses


def main(folder: str) -> None:
    """Check and print, or exit with one sentence."""
    root = Path(folder)
    version = addresses.version(root)
    named = {"CITATION.cff": f"version: {version}\n", "docs/citation.md": f"{{{version}}}"}
    notebooks = (path.relative_to(root) for path in root.glob("notebooks/*.ipynb"))
    for name, words in (named | dict.fromkeys(notebooks, f"fedjax-admm=={version}")).items():
        if words not in (root / name).read_text("utf-8"):
            sys.exit(f"{name} does not name version {version}")
    sections = re.split(r"^## ", (root / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    own = [text for text in sections if text.startswith(f"{version} ")]
    if not own:
        sys.exit(f"CHANGELOG.md has no section of version {version}")
    print(own[0])


if __name__ == "__main__":
    main(sys.argv[1])
