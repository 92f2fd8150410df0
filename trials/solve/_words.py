"""What a person reads: templates of Jinja, which stand in the families' folders.

    told("ratings/told.txt", fit=fit)

Filters of numbers and names: `f` formats as Python does, and the functions below.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np


def told(template: str, **values: Any) -> str:
    """Fill in a template."""
    return _templates().get_template(template).render(values).rstrip("\n")


def amount(number: int | None, noun: str) -> str:
    """Return "1 edge", "2 edges"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def span(counts: np.ndarray) -> str:
    """Return "3", or "3 to 5" where numbers differ."""
    low, high = counts.min(), counts.max()
    return f"{low}" if low == high else f"{low} to {high}"


def shortened(names: Sequence[str], most: int = 4) -> str:
    """Join names by commas; of the others, the number."""
    rest = len(names) - most
    shown = ", ".join(name or "(without a name)" for name in names[:most])
    return shown + (f" and {rest} more" if rest > 0 else "")


@cache
def _templates() -> Any:
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.PackageLoader("fedjax_admm.trials.solve", ""),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"f": format, "amount": amount, "span": span, "shortened": shortened}
    found.globals["zip"] = zip
    return found
