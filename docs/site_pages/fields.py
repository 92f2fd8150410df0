"""The comments of classes' fields and of modules' constants, read from the source.

Every field of ours has a comment with shape, dtype, unit and meaning, which may continue in lines
of its own below the field. A constant has a comment, or a text below it.
"""

import ast
import inspect
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path


def field_comments(cls: type) -> dict[str, str]:
    """Return the comment of each field that a class defines itself, by the field's name."""
    try:
        file = inspect.getsourcefile(cls)
        first = inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return {}
    if file is None:
        return {}
    tree, comments = _parsed(file)
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for node in classes:
        begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        if node.name == cls.__name__ and begin == first:
            return {name: " ".join(_comment(comments, line)) for name, line in _fields(node)}
    return {}


def constant_comment(module: str, name: str) -> str:
    """Return the comment beside or below a constant of a module, "" without one."""
    tree, comments = _parsed(find_spec(module).origin)
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if name not in _assigned(node):
            continue
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return str(after.value.value)
        beside = {node.lineno, node.end_lineno or node.lineno}
        return " ".join(words for line in sorted(beside) for words in _comment(comments, line))
    return ""


def _assigned(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a module assigns."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    parts = (part for target in targets if target is not None for part in ast.walk(target))
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, int]]:
    """Yield the public annotated names of a class, each with the last line of its statement."""
    for part in node.body:
        named = isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        if named and not part.target.id.startswith("_"):
            yield part.target.id, part.end_lineno or part.lineno


def _comment(comments: dict[int, tuple[bool, str]], line: int) -> Iterator[str]:
    """Yield the comment beside a line, and its continuation below."""
    if line not in comments:
        return
    yield comments[line][1]
    while comments.get(line := line + 1, (False, ""))[0]:
        yield comments[line][1]


@cache
def _parsed(file: str) -> tuple[ast.Module, dict[int, tuple[bool, str]]]:
    """Return a file's tree, and its comments by line: whether it is alone there, its words."""
    text = Path(file).read_text("utf-8")
    lines = text.splitlines()
    comments = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            alone = not lines[token.start[0] - 1][: token.start[1]].strip()
            words = token.string.lstrip("# ").partition("pyright:")[0].strip()
            comments[token.start[0]] = (alone, words)
    return ast.parse(text), comments
