"""The gallery: every experiment's figure at its defaults, its command, its time, its findings."""

from collections.abc import Iterator
from pathlib import Path

from fedjax_admm.trials import experiments

HEAD = """# Gallery

The gallery shows every experiment at its default settings, with its findings. `fedjax-admm run
NAME` draws the figure and writes its numbers; `--all` adds the methods and panels that the figure
leaves out. The seconds are those of the whole command on two quiet cores of an Intel Xeon (Sapphire
Rapids) without compiled programs in the cache; other machines took up to twice as long.
Where an experiment uses real data, its page names those of the figure and of the findings; without
them a run draws data of the same shape, says so, and states no finding.
"""
FAMILIES = {  # the first words of experiments' names
    "fsmdm": "Robust localisation: FSMDM",
    "localization": "Localisation: real ranges and moving targets",
    "hfsad": "Trees: HFSAD",
    "nfl": "Graphs: generalised total variation",
    "fedmc": "Ratings: FedMC-ADMM",
    "zcdp": "Private networks: zCDP-NFL",
    "federated nonsmooth": "Solvers side by side",
    "messages": "Messages: compression, Byzantine senders, delays",
}


def gallery_pages(docs: Path) -> Iterator[tuple[str, str]]:
    """Yield the page of the gallery, a card per experiment, and a page of each experiment."""
    lines = [HEAD]
    own = [each for each in experiments.headlines() if each.origin is None]
    for family, title in FAMILIES.items():
        shown = [each for each in own if each.name.partition("-")[0] in family.split()]
        lines += [f"## {title}", ""]
        lines += [f"*{paper}*\n" for paper in dict.fromkeys(each.paper for each in shown)]
        lines += ["::::{grid} 1 1 2 2", ":gutter: 2", ""]
        for each in shown:
            lines += _card(each, docs)
        lines.append("::::\n")
    hidden = [f"gallery/{each.name}" for each in own]
    yield "gallery.md", "\n".join([*lines, "```{toctree}", ":hidden:", "", *hidden, "```", ""])
    for each in own:
        yield f"gallery/{each.name}.md", "\n".join(_experiment(each, docs))


_WHOLE = ":target: ../../_images/"  # the picture alone, at its own size


def _card(headline, docs: Path) -> Iterator[str]:
    """Yield the card of an experiment: its verdict and its picture, which lead to its page."""
    name, verdict = headline.name, _markdown(_verdict(headline))
    yield f":::{{grid-item-card}} {verdict}"
    yield f":link: gallery/{name}\n:link-type: doc"
    if (docs / "gallery" / f"{name}.png").exists():
        yield f":img-bottom: /gallery/{name}.png\n:img-alt: {verdict}"
    yield f"\n`{name}`\n:::\n"


def _verdict(headline) -> str:
    """Return the first finding of an experiment, or its title."""
    return (headline.findings or headline.title).splitlines()[0]


def _experiment(headline, docs: Path) -> Iterator[str]:
    """Yield the page of one experiment."""
    name = headline.name
    taken = headline.usual_seconds
    seconds = f", {taken:g} s" if taken else ""
    yield f"# `{name}`\n\n{headline.title[:1].upper()}{headline.title[1:]}.\n"
    yield f"```sh\nfedjax-admm run {name}   # {headline.trials} trials{seconds}\n```\n"
    if (docs / "gallery" / f"{name}.png").exists():
        yield f"```{{image}} /gallery/{name}.png\n:alt: {headline.title}\n{_WHOLE}{name}.png\n```\n"
    if headline.findings:
        yield "## What we found\n"
        if headline.measured_on != "drawn":
            yield f"Measured on {headline.measured_on}.\n"
        yield "\n".join(f"- {line}" for line in _markdown(headline.findings).splitlines())
    yield f"\n*{headline.paper}*\n"


def _markdown(text: str) -> str:
    """Return plain text as Markdown that reads the same."""
    for mark in "\\*_|<>$":
        text = text.replace(mark, f"\\{mark}")
    return text
