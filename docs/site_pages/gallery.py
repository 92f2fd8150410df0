"""The gallery: every experiment's figure at its defaults, its command, its time, its findings."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from fedjax_admm.trials import experiments

HEAD = """# Gallery

Every experiment at its default settings: `fedjax-admm run NAME` draws the figure and writes the
numbers beside it. The seconds are those of the whole command on two CPU cores, where its programs
had not been compiled before. Experiments on real data were run on it; without it they draw data of
the same shape and say so.
"""


def gallery_pages(docs: Path) -> Iterator[tuple[str, str]]:
    """Yield the page of the gallery."""
    lines = [HEAD]
    for paper, group in groupby(experiments.headlines(), key=lambda each: each.paper):
        shown = [each for each in group if each.origin is None]
        if not shown:
            continue
        lines += [f"## {_family(shown[0].name)}", "", f"*{paper}*", ""]
        for each in shown:
            lines += _experiment(each, docs)
    yield "gallery.md", "\n".join(lines)


FAMILIES = {
    "fedmc": "Ratings: FedMC-ADMM",
    "fsmdm": "Robust localisation: FSMDM",
    "hfsad": "Trees: HFSAD",
    "messages": "Messages: compression, liars, delays",
    "nfl": "Graphs: generalised total variation",
    "federated": "Solvers of the field beside each other",
    "zcdp": "Private networks: zCDP-NFL",
}


_WHOLE = ":target: ../_images/"  # the picture alone, at its own size


def _family(name: str) -> str:
    """Return the heading of the experiments of a paper."""
    return FAMILIES[name.partition("-")[0]]


def _experiment(headline, docs: Path) -> Iterator[str]:
    """Yield what is told of one experiment."""
    name = headline.name
    taken = getattr(headline, "usual_seconds", None)
    seconds = f", {taken:g} s" if taken else ""
    yield f"### `{name}`\n\n{headline.title[:1].upper()}{headline.title[1:]}.\n"
    if (docs / "gallery" / f"{name}.png").exists():
        yield f"```{{image}} /gallery/{name}.png\n:alt: {headline.title}\n{_WHOLE}{name}.png\n```\n"
    yield f"```sh\nfedjax-admm run {name}   # {headline.trials} trials{seconds}\n```\n"
    findings = experiments.find(name).findings
    if findings:
        yield f"```{{dropdown}} What we found\n{_markdown(findings)}\n```\n"


def _markdown(text: str) -> str:
    """Return plain text as Markdown that reads the same."""
    for mark in "\\*_|<>$":
        text = text.replace(mark, f"\\{mark}")
    return text
