"""What a kernel's page has before its docstring: formulas, a picture, and three lines of use."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import fedjax_admm.kernels as kernels
from site_pages.formulas import FORMULAS
from site_pages.names import Name
from site_pages.papers import papers

PICTURES = Path(__file__).parents[1] / "kernels"

_VECTOR, _MATRIX = "jnp.array([3.0, -0.5, 1.2])", "jnp.array([[2.0, 0.5], [-1.0, 0.3]])"
_FACTOR = "kernels.{}(jnp.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]]), jnp.array([1.0, 0.5]))"
_MATRICES = (
    "matrices",
    "birkhoff",
    "transport",
    "hankel",
    "tv2d",
    "top_k_groups",
)  # folders, or parts of names
_ARGUMENTS = {  # parameter -> what stands for it in an example
    "step": "0.5",
    "weight": "1.0",
    "lam": "1.0",
    "gamma": "3.0",
    "mu": "0.1",
    "radius": "1.0",
    "normal": "jnp.ones(3)",
    "direction": "jnp.ones(3)",
    "offset": "1.0",
    "total": "1.0",
    "lower": "-1.0",
    "upper": "1.0",
    "low": "-1.0",
    "high": "1.0",
    "k": "1",
    "epsilon": "0.5",
    "row": "jnp.array([1.0, 2.0, -1.0])",
    "x": "jnp.array([1.0, 2.0, -1.0])",
    "y": "1.0",
    "target": "1.0",
    "delta": "1.0",
    "quantile": "0.9",
    "theta": "1.0",
    "cap": "1.0",
    "l1": "0.5",
    "l2": "0.5",
    "tv": "0.5",
    "group": "0.5",
    "reference": "1.0",
    "alpha": "0.5",
    "slope": "0.5",
    "counts": "2.0",
    "weights": "jnp.array([3.0, 2.0, 1.0])",
    "segments": "jnp.array([0, 0, 1])",
    "count": "2",
    "distance": "1.0",
    "anchor": "jnp.zeros(3)",
    "row_marginals": "0.5",
    "column_marginals": "0.5",
    "projections": "[kernels.project_non_negative, kernels.project_l1_ball]",
    "distances": "jnp.array([[1.0], [2.0]])",
}
_OWN = {  # kernel -> parameter -> what stands for it there
    "prox_least_squares": {"factor": _FACTOR.format("least_squares_factor")},
    "prox_absolute_loss": {"factor": _FACTOR.format("sample_factor")},
    "prox_logistic_loss": {"factor": _FACTOR.format("sample_factor")},
    "prox_pinball_loss": {"factor": _FACTOR.format("sample_factor")},
    "project_affine": {"factor": _FACTOR.format("affine_factor")},
    "prox_quadratic": {"factor": "kernels.quadratic_factor(2 * jnp.eye(3), jnp.ones(3))"},
    "project_graph": {"factor": "kernels.graph_factor(jnp.array([[1.0, 2.0]]))"},
    "prox_least_squares_circular": {
        "kernel": "jnp.array([0.5, 0.5, 0.0])",
        "target": "jnp.array([1.0, 0.0, 2.0])",
    },
    "prox_sparse_segments": {"weights": "jnp.array([1.0, 0.7])"},
    "prox_segments_l2": {"weights": "jnp.array([1.0, 0.7])"},
    "prox_ranges": {"p": "jnp.array([[3.0, 0.0], [2.0, 1.0]])", "anchor": "jnp.zeros(2)"},
}
_SPECTRAL = "kernels.prox_spectral({}, 0.5, kernels.prox_mcp, 1.0, 3.0)"


def kernel_head(name: Name) -> Iterator[str]:
    """Yield the lines of a kernel's page before its docstring; none of one that is no map."""
    if name.name not in FORMULAS:
        return
    yield from _formulas(name.name)
    if (PICTURES / f"{name.name}.svg").exists():
        yield f".. image:: /kernels/{name.name}.svg"
        yield f"   :alt: {name.name}: before and after\n   :align: center\n   :class: kernel\n"
    yield ".. code-block:: python\n"
    yield indent("\n".join(use(name)), "   ") + "\n"


def use(name: Name) -> list[str]:
    """Return lines of Python that call a kernel."""
    return ["import jax.numpy as jnp", "from fedjax_admm import kernels", _call(name)]


def bibtex(docstring: str) -> Iterator[str]:
    """Yield the lines of a box with the papers that a docstring names, to copy."""
    entries = "\n\n".join(paper.bibtex() for paper in papers(docstring))
    if entries:
        yield f".. dropdown:: BibTeX\n\n   .. code-block:: bibtex\n\n{indent(entries, ' ' * 6)}\n"


def _formulas(name: str) -> Iterator[str]:
    """Yield what is minimised, and the minimiser."""
    penalty, found = FORMULAS[name]
    if name.startswith("project_"):
        result = "P_C(v)"
        least = r"\operatorname*{argmin}_{x \in C} \|x - v\|^2"
    else:
        point = next(iter(inspect.signature(getattr(kernels, name)).parameters))
        x = penalty[2] if penalty.startswith("g(") else "x"  # the letter of what is found
        result = rf"\operatorname{{Prox}}_g({point}; \tau)"
        least = rf"\operatorname*{{argmin}}_{x}\; g({x}) + \frac{{1}}{{2 \tau}} \|{x} - {point}\|^2"
    objective = rf"{result} = {least}, \qquad {penalty}"
    yield _math(penalty if "argmin" in penalty else objective)
    if found.startswith("x :"):
        yield _math(rf"{result} = x \;\text{{ with }}\; {found.removeprefix('x :').strip()}")
    elif found.startswith(("x_", r"x \in")):
        yield _math(rf"{result} = x \;\text{{ with }}\; {found}")
    elif found.startswith(r"\text"):
        yield _math(found)
    else:
        equals = "" if found.startswith(r"\approx") else "="
        yield _math(f"{result} {equals} {found}")
    words = [r":math:`\tau` is the step"] if r"\tau" in penalty + found else []
    if "S_" in found and name != "prox_l1":
        soft = r":math:`S_t(v) = \operatorname{sign}(v) \max(|v| - t, 0)` the soft threshold"
        words.append(soft)
    if words:
        yield f"Here {', and '.join(words)}.\n"


def _math(formula: str) -> str:
    """Return a displayed formula; what stands apart in it has a line of its own."""
    lines = [line.strip() for line in formula.split(r"\qquad")]
    if len(lines) > 1:
        formula = r"\begin{gathered} " + r" \\[0.5em] ".join(lines) + r" \end{gathered}"
    return f".. math::\n\n   {formula}\n"


def _call(name: Name) -> str:
    """Return an expression that calls a kernel at a point of its kind."""
    matrix = any(part in f"{name.folder} {name.name}" for part in _MATRICES)
    if name.name == "prox_spectral":
        return _SPECTRAL.format(_MATRIX)
    given = {**_ARGUMENTS, **_OWN.get(name.name, {})}
    parameters = inspect.signature(getattr(kernels, name.name)).parameters.values()
    asked = [each.name for each in parameters if each.default is each.empty]
    point, *others = asked
    words = [given.get(point, _MATRIX if matrix else _VECTOR)]
    words += [
        given[each] if each == "step" and i == 0 else f"{each}={given[each]}"
        for i, each in enumerate(others)
    ]
    return f"kernels.{name.name}({', '.join(words)})"
