"""The fields of classes, from the comments that stand beside them in the source.

Every field of ours carries a comment: shape, dtype, unit, what it is. A comment may go on in lines
of its own below the field.
"""

import ast
import inspect
import io
import tokenize
from collections.abc import Iterator
from functools import cache
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


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, int]]:
    """Yield the public annotated names of a class, each with the last line of its statement."""
    for part in node.body:
        named = isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        if named and not part.target.id.startswith("_"):
            yield part.target.id, part.end_lineno or part.lineno


def _comment(comments: dict[int, tuple[bool, str]], line: int) -> Iterator[str]:
    """Yield the words beside a line, and of the comments that go on below it."""
    if line not in comments:
        return
    yield comments[line][1]
    while comments.get(line := line + 1, (False, ""))[0]:
        yield comments[line][1]


@cache
def _parsed(file: str) -> tuple[ast.Module, dict[int, tuple[bool, str]]]:
    """Return a file's tree, and its comments by line: whether it stands alone there, its words."""
    text = Path(file).read_text("utf-8")
    lines = text.splitlines()
    comments = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            alone = not lines[token.start[0] - 1][: token.start[1]].strip()
            words = token.string.lstrip("# ").partition("pyright:")[0].strip()
            comments[token.start[0]] = (alone, words)
    return ast.parse(text), comments
