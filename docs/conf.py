"""The documentation site: `python -m pip install -e '.[docs]' && make -C docs html`.

Written pages lie in this folder; `site_pages/` writes the others into `generated/` before each
build: the reference from the package's stubs and docstrings, the command line from itself, the
gallery from the pictures in `gallery/` and the experiments' findings, and copies of the notebooks
with their stored outputs, which the thorough tests prove. `SPHINXOPTS="-D nb_execution_mode=force"`
executes them anew. Nothing is fetched from a network, neither while building nor while reading.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from site_pages import (
    KEYWORDS,
    add_keywords,
    hide_field_numbers,
    link_source,
    plain_docstrings,
    short_signature,
    told_elsewhere,
    write_pages,
)

import fedjax_admm

project = "fedjax-admm"
author = "The fedjax-admm developers"
copyright = f"2026, {author}"
release = version = fedjax_admm.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
nitpicky = True
# Other people's types are not told here; ours are found by `told_elsewhere`.
nitpick_ignore_regex = [(r"py:(class|exc|data|obj)", r"(?!fedjax_admm\.).*")]

# Docstrings are plain text: what stands between backticks, or indented, is code.
default_role = "code"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
add_module_names = False
# Names stand in a table at the head of their room. In the sidebar of every page they would make the
# build three times as long.
toc_object_entries = False

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "furo"
html_title = "fedjax-admm"
# MathJax as one file, without fonts to fetch: formulas are drawn where there is no network.
_mathjax = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static/mathjax/tex-svg.js"
html_static_path = ["static", str(_mathjax)]
mathjax_path = _mathjax.name
mathjax_options = {"defer": "defer"}
html_css_files = ["site.css"]
html_theme_options = {
    "navigation_with_keys": True,
    # Shown where the build has the repository's address (`.ci/addresses.py`).
    "top_of_page_buttons": ["view", "edit"],
}
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/places.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
# `.ci/site` builds a version to lie beside others, and `.ci/versions.py` lists them.
html_context = {"versioned": tags.has("versioned")}  # noqa: F821
html_search_scorer = "static/scorer.js"
html_copy_source = False
html_show_sourcelink = False
copybutton_exclude = ".linenos, .gp, .go"
pygments_dark_style = "github-dark"


def setup(app):
    """Write the pages that follow from the package, and read docstrings as plain text."""
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir)))
    app.connect("source-read", add_keywords)
    app.add_config_value("search_words", KEYWORDS, "env")  # other words: read the pages again
    app.connect("html-page-context", link_source)
    app.connect("autodoc-process-docstring", plain_docstrings)
    app.connect("autodoc-process-signature", short_signature)
    app.connect("autodoc-skip-member", hide_field_numbers)
    app.connect("missing-reference", told_elsewhere)
