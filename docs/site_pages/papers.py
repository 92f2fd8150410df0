"""References of docstrings as BibTeX, to copy."""

import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import fedjax_admm.kernels

_CITED = re.compile(
    r'(?P<authors>[^";()]+?), "(?P<title>[^"]+)",?\s*(?P<place>[^;"]*?)(?=;|\. [A-Z][a-z]{3}|\.?$)'
)
_SHORT = re.compile(r"(?P<authors>[A-Z][\w-]+(?: and [A-Z][\w-]+| et al\.)?), (?P<year>\d{4})")
_ARXIV = re.compile(r"arXiv[: ](\d\d)\d\d\.\d+")
_YEAR = re.compile(r"\b(1[89]\d\d|20\d\d)\b")
_INITIALS = re.compile(r"^[A-Z][a-z]?\.")


class Paper(NamedTuple):
    """A paper that a docstring names."""

    authors: str  # "N. Parikh and S. Boyd"
    title: str
    place: str  # journal, volume; sections
    year: str  # "" where the docstring has none

    @property
    def key(self) -> str:
        """Return how it is cited: the first author's last name, and the year."""
        first = re.split(r",| and | et al", self.authors)[0].split()
        return re.sub(r"\W", "", first[-1]).lower() + self.year

    def bibtex(self) -> str:
        """Return its entry."""
        names = re.sub(r",? et al\.?", ", others", self.authors)
        authors = " and ".join(re.split(r",? and |, ", names))
        place = re.sub(r"\s*\([^()]*\)\.?$", "", self.place).strip(" .,")
        fields = {"author": authors, "title": f"{{{self.title}}}", "year": self.year, "note": place}
        lines = [f"  {name} = {{{text}}}," for name, text in fields.items() if text]
        return "\n".join([f"@misc{{{self.key},", *lines, "}"])


def papers(docstring: str) -> list[Paper]:
    """Return the papers that the references of a docstring name, each once."""
    found = re.search(r"^References?:\s(.*?)(?:\n\n|\Z)", docstring, re.DOTALL | re.MULTILINE)
    text = " ".join(found[1].split()) if found else ""
    named = {paper.key: paper for paper in _read(text)}
    for short in _SHORT.finditer(re.sub(r'"[^"]*"', "", text)):
        several = short["authors"].endswith("et al.")
        known = _often_cited().get((short["authors"].split()[0], short["year"], several))
        if known:
            named.setdefault(known.key, known)
    return list(named.values())


@cache
def _often_cited() -> dict[tuple[str, str, bool], Paper]:
    """Return the papers that kernels cite by author and year, and "et al." for three or more."""
    _, _, listed = (inspect.getdoc(fedjax_admm.kernels) or "").partition("Cited by author and year")
    read = [paper for item in listed.split("\n- ") for paper in _read(" ".join(item.split()))]
    people = {paper: re.split(r", | and ", paper.authors) for paper in read}
    return {
        (names[0].split()[-1], paper.year, len(names) > 2): paper for paper, names in people.items()
    }


def _read(text: str) -> Iterator[Paper]:
    """Yield the papers of a text that names authors, a title in quotes and a place."""
    for found in _CITED.finditer(text):
        authors = found["authors"].split(": ")[-1].strip(" :.")
        # Words before the authors, such as a section, end where initials begin.
        parts = authors.split(", ")
        while len(parts) > 1 and not _INITIALS.match(parts[0].removeprefix("and ")):
            parts = parts[1:]
        years = _YEAR.findall(_ARXIV.sub("", found["place"]))
        years += ["20" + year for year in _ARXIV.findall(found["place"])]
        yield Paper(", ".join(parts), found["title"], found["place"], years[0] if years else "")
