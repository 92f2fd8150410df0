"""Pages of the site that follow from the package, and how its docstrings are read."""

from site_pages.docstrings import (
    hide_field_numbers,
    plain_docstrings,
    short_signature,
)
from site_pages.keywords import KEYWORDS, add_keywords
from site_pages.links import told_elsewhere
from site_pages.places import link_source
from site_pages.writing import write_pages

__all__ = [
    "KEYWORDS",
    "add_keywords",
    "hide_field_numbers",
    "link_source",
    "plain_docstrings",
    "told_elsewhere",
    "short_signature",
    "write_pages",
]
