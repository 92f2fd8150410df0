"""The repository's address, and the places of a build that name it.

No address stands in the sources. A build takes it from one of these, the first that is there:
the variable FEDJAX_ADMM_REPOSITORY, which `.ci/release --repository` sets; the workflow of GitHub
in which it runs; the remote `origin`, where that is on GitHub or GitLab. Without one, a build names
no address.

python .ci/addresses.py [COPY] prints it, and writes it into the files of a copy of the sources:
pyproject.toml, README.md and CITATION.cff.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
FORGES = ("github.com", "gitlab.com")
CLONE = "In a clone of the repository"
RELEASED = "`pip install fedjax-admm` installs this release. In a clone of [the repository]({})"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#")


def find(environment: Mapping[str, str] = os.environ, folder: Path = ROOT) -> str | None:
    """Return the address, `https://HOST/OWNER/NAME`, or None where nobody gives one."""
    if given := environment.get("FEDJAX_ADMM_REPOSITORY"):
        return _https(given) or sys.exit(f"{given!r} is no address such as https://HOST/OWNER/NAME")
    if name := environment.get("GITHUB_REPOSITORY"):
        return _https(f"{environment.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}")
    command = ["git", "-C", str(folder), "remote", "get-url", "origin"]
    asked = subprocess.run(command, capture_output=True, text=True)
    address = _https(asked.stdout.strip()) if asked.returncode == 0 else None
    return address if address and address.split("/")[2] in FORGES else None


def absolute(text: str, repository: str, tag: str) -> str:
    """Return Markdown whose relative links and images lead to the repository's files at a tag."""

    def replace(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        if not _ELSEWHERE.match(target):
            target = f"{repository}/{'raw' if image else 'blob'}/{tag}/{target}"
        return f"{image}[{words}]({target})"

    parts = re.split(r"(^```.*?^```)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if i % 2 else _LINK.sub(replace, part) for i, part in enumerate(parts))


def project_urls(repository: str, tag: str) -> dict[str, str]:
    """Return the addresses that a package index shows, by their names."""
    site = pages(repository)
    return {
        "Homepage": repository,
        "Documentation": f"{site}/stable/" if site else f"{repository}/blob/{tag}/docs/index.md",
        "Repository": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
    }


def pages(repository: str) -> str | None:
    """Return the address of the site that GitHub serves for a repository, None elsewhere."""
    host, owner, name = repository.split("/")[2:5]
    return f"https://{owner.lower()}.github.io/{name}" if host == "github.com" else None


def colab(repository: str, tag: str, notebook: str) -> str | None:
    """Return the address that opens a notebook of a repository on GitHub in Colab."""
    inner = repository.removeprefix("https://github.com/")
    address = f"https://colab.research.google.com/github/{inner}/blob/{tag}/notebooks/{notebook}"
    return f"{address}.ipynb" if repository.startswith("https://github.com/") else None


def write(folder: Path, repository: str, tag: str) -> None:
    """Write the addresses into a copy of the sources."""
    readme, project, citation = (
        folder / name for name in ("README.md", "pyproject.toml", "CITATION.cff")
    )
    text = absolute(readme.read_text("utf-8"), repository, tag)
    readme.write_text(text.replace(CLONE, RELEASED.format(repository), 1), "utf-8")
    lines = [f'{name} = "{url}"' for name, url in project_urls(repository, tag).items()]
    table = "\n".join(["[project.urls]", *lines, "", "[project.scripts]"])
    project.write_text(project.read_text("utf-8").replace("[project.scripts]", table, 1), "utf-8")
    with citation.open("a", encoding="utf-8") as file:
        file.write(f'repository-code: "{repository}"\n')


def version(folder: Path = ROOT) -> str:
    """Return the version of the sources."""
    code = (folder / "fedjax_admm" / "_version.py").read_text("utf-8")
    return re.search(r'__version__ = "(.*)"', code)[1]  # pyright: ignore


def _https(address: str) -> str | None:
    """Return an https, ssh or scp-like address of a repository as https, None of another kind."""
    form = r"(?:https://(?:[^@/]+@)?|ssh://git@|git@)([\w.-]+)(?::\d+)?[/:](.+?)(?:\.git)?/?"
    match = re.fullmatch(form, address)
    return f"https://{match[1]}/{match[2]}" if match else None


def main(copy: str = "") -> None:
    """Print the address, and write it into a copy of the sources where one is given."""
    repository = find() or ""
    if copy and repository:
        write(Path(copy), repository, f"v{version(Path(copy))}")
    print(repository)


if __name__ == "__main__":
    main(*sys.argv[1:])
