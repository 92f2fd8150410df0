"""The page as a whole: head, runs side by side, settings; style and script stand in it."""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from fedjax_admm.trials.report._elements import Markup, element
from fedjax_admm.trials.report._sections import (
    ShownRun,
    differences_section,
    findings_section,
    run_section,
    settings_section,
)


def page_text(runs: Sequence[ShownRun], metric: str | None = None) -> str:
    """Return a page that shows runs side by side, as HTML that needs nothing from elsewhere.

    Its content security policy lets no browser load anything, nor run a script but the one that
    stands in the page. Without scripts everything is there, but tables are not sorted.

    Args:
      runs: at least one.
      metric: what the first table and the paired differences show; if None, the error, or what the
        experiment names first.

    Raises:
      InputError: the metric was not measured.
    """
    script, style = _own("page.js"), _own("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    experiments = dict.fromkeys(run.results.config["experiment"] for run in runs)
    name = ", ".join(experiments)
    titles = dict.fromkeys(run.results.config["title"] for run in runs)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"{name}: {'; '.join(titles)}"),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element("h1", name),
        [element("p", title) for title in titles],
        element(
            "main",
            element("div", _sections(runs, metric), class_="runs"),
            findings_section(runs),
            differences_section(runs, metric),
            settings_section(runs),
        ),
        element("script", Markup(script)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _sections(runs: Sequence[ShownRun], metric: str | None) -> list[Markup]:
    return [run_section(run, number, metric) for number, run in enumerate(runs, 1)]


def _own(name: str) -> str:
    """Return a file that lies beside this module."""
    return (resources.files("fedjax_admm.trials.report") / name).read_text("utf-8")
