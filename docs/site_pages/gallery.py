"""The gallery: every experiment's figure at its defaults, its command, its time, its findings."""

from collections.abc import Iterator
from pathlib import Path

from fedjax_admm.trials import experiments

HEAD = """# Gallery

Every experiment at its default settings: `fedjax-admm run NAME` draws the figure and writes the
numbers beside it. The seconds are those of the whole command on two quiet cores of an Intel Xeon
(Sapphire Rapids), where its programs had not been compiled before; other machines took up to
twice as long. Experiments on real data were run on it; without it they draw data of the same
shape and say so.
"""


def gallery_pages(docs: Path) -> Iterator[tuple[str, str]]:
    """Yield the page of the gallery."""
    lines = [HEAD]
    own = [each for each in experiments.headlines() if each.origin is None]
    for family, title in FAMILIES.items():
        shown = [each for each in own if each.name.partition("-")[0] in family.split()]
        lines += [f"## {title}", ""]
        lines += [f"*{paper}*\n" for paper in dict.fromkeys(each.paper for each in shown)]
        for each in shown:
            lines += _experiment(each, docs)
    yield "gallery.md", "\n".join(lines)


FAMILIES = {  # the first words of experiments' names
    "fsmdm": "Robust localisation: FSMDM",
    "localization": "Localisation: real ranges and moving targets",
    "hfsad": "Trees: HFSAD",
    "nfl": "Graphs: generalised total variation",
    "fedmc": "Ratings: FedMC-ADMM",
    "zcdp": "Private networks: zCDP-NFL",
    "federated nonsmooth": "Solvers of the field beside each other",
    "messages": "Messages: compression, Byzantine senders, delays",
}


_WHOLE = ":target: ../_images/"  # the picture alone, at its own size


def _experiment(headline, docs: Path) -> Iterator[str]:
    """Yield the section of one experiment."""
    name = headline.name
    taken = headline.usual_seconds
    seconds = f", {taken:g} s" if taken else ""
    yield f"### `{name}`\n\n{headline.title[:1].upper()}{headline.title[1:]}.\n"
    if (docs / "gallery" / f"{name}.png").exists():
        yield f"```{{image}} /gallery/{name}.png\n:alt: {headline.title}\n{_WHOLE}{name}.png\n```\n"
    yield f"```sh\nfedjax-admm run {name}   # {headline.trials} trials{seconds}\n```\n"
    findings = experiments.find(name).findings
    if findings:
        bullets = "\n".join(f"- {line}" for line in _markdown(findings).splitlines())
        yield f"```{{dropdown}} What we found\n{bullets}\n```\n"


def _markdown(text: str) -> str:
    """Return plain text as Markdown that reads the same."""
    for mark in "\\*_|<>$":
        text = text.replace(mark, f"\\{mark}")
    return text
