"""Print conda-forge's recipe of an sdist: its digest, and the needs that pyproject.toml names.

python .ci/conda_recipe.py dist/fedjax_admm-0.1.0.tar.gz > recipe.yaml
"""

import hashlib
import re
import sys
import tarfile
import tomllib
from pathlib import Path

# Where conda-forge's name is another.
NAMES = {"flatbuffers": "python-flatbuffers", "matplotlib": "matplotlib-base"}

RECIPE = """\
# yaml-language-server: $schema=https://raw.githubusercontent.com/prefix-dev/recipe-format/main/schema.json
schema_version: 1

context:
  version: "{version}"
  python_min: "{python}"

package:
  name: {name}
  version: ${{{{ version }}}}

source:
  url: https://pypi.org/packages/source/{first}/{name}/{file}
  sha256: {digest}

build:
  number: 0
  noarch: python
  script: ${{{{ PYTHON }}}} -m pip install . -vv --no-deps --no-build-isolation
  python:
    entry_points:
{scripts}

requirements:
  host:
    - python ${{{{ python_min }}}}.*
    - pip
{build}
  run:
    - python >=${{{{ python_min }}}}
{run}

tests:
  - python:
      imports:
        - fedjax_admm
        - fedjax_admm.kernels
        - fedjax_admm.trials
      pip_check: true
      python_version: ${{{{ python_min }}}}.*
  - script:
      - fedjax-admm list

about:
  summary: {summary}
  license: {license}
  license_file: LICENSE
{places}"""
PLACES = {"homepage": "Homepage", "repository": "Repository", "documentation": "Documentation"}


def items(needs: list[str]) -> str:
    """Return the lines of a list of needs, under conda-forge's names."""
    pairs = (re.fullmatch(r"([\w.-]+)(.*)", need).groups() for need in needs)  # pyright: ignore
    return "\n".join(f"    - {NAMES.get(name, name)} {bound}".rstrip() for name, bound in pairs)


def main(path: str) -> None:
    """Read the sdist and print."""
    sdist = Path(path)
    with tarfile.open(sdist) as archive:
        inside = archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/pyproject.toml")
        whole = tomllib.loads(inside.read().decode())  # pyright: ignore
    project = whole["project"]
    urls = project.get("urls", {})  # `addresses.py` writes them where there is an address
    print(
        RECIPE.format(
            name=project["name"],
            first=project["name"][0],
            version=sdist.name.removesuffix(".tar.gz").split("-")[1],
            python=project["requires-python"].removeprefix(">="),
            file=sdist.name,
            digest=hashlib.sha256(sdist.read_bytes()).hexdigest(),
            scripts="\n".join(f"      - {k} = {v}" for k, v in project["scripts"].items()),
            build=items(whole["build-system"]["requires"]),
            run=items(project["dependencies"]),
            summary=project["description"],
            license=project["license"],
            places="".join(f"  {k}: {urls[name]}\n" for k, name in PLACES.items() if name in urls),
        ),
        end="",
    )


if __name__ == "__main__":
    main(sys.argv[1])
