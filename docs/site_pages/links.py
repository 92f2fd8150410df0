"""Links from types in signatures to their public names, though private modules define them."""

from functools import cache
from importlib import import_module
from typing import TypeVar

from site_pages.names import public_names


def told_elsewhere(app, env, node, contnode):
    """Resolve a reference to `fedjax_admm.solvers.star._fsmdm.FSMDM` as that of its public name.

    A type of ours that has no public name is no link.
    """
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py":
        return None
    public = _by_home().get(target)
    if public is None:
        return contnode if _is_not_told(target) else None
    return env.domains["py"].resolve_xref(
        env, node["refdoc"], app.builder, "obj", public, node, contnode
    )


def _is_not_told(target: str) -> bool:
    """Return whether a name is a type of ours without a public name, or stands for any type."""
    module, _, name = target.rpartition(".")
    if not module.startswith("fedjax_admm"):
        return False
    value = getattr(import_module(module), name, None) if "._" not in target else None
    return "._" in target or isinstance(value, type | TypeVar)


@cache
def _by_home() -> dict[str, str]:
    """Return the public name of every definition, and of every name that is unique."""
    names = public_names()
    short = [name.name for name in names]
    unique = {name.name: name.full for name in names if short.count(name.name) == 1}
    return unique | {f"{name.home}.{name.name}": name.full for name in names}
