"""Ratings from files.

table = read_ratings("ml-100k/u.data")             user, item, rating, time; separated by tabs
table = read_ratings("ml-1m/ratings.dat")          user::item::rating::time
table = read_ratings("ml-25m/ratings.csv")         columns known by their names
table = read_ratings("mine.csv", user="who", item="what", rating="how")

Users and items are numbered, or told by texts such as `anna`.
"""

import csv
import gzip
import re
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from fedjax_admm._checks import InputError, count, listed
from fedjax_admm._host import LONGEST_LINE, LONGEST_NAME, check_room, opened
from fedjax_admm._shown import short_repr
from fedjax_admm.ratings._column import Column
from fedjax_admm.ratings._cores import cores
from fedjax_admm.ratings._digits import NotPlainError, decimals, integers, require
from fedjax_admm.ratings._table import Bound, Ratings, Texts, bound, tabulated


def read_ratings(
    path: str | Path,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    num_users: int | None = None,
    num_items: int | None = None,
    chunk_bytes: int = 2**20,
) -> Ratings:
    """Read a file with one rating per line: user, item, rating and whatever else, such as a time.

    Fields are separated by tabs, `::`, commas, semicolons or spaces, as the first line shows. A
    first line without any number names the columns; otherwise user, item and rating come first,
    in this order. Fields may stand in quotes, but a rating must not go on in the next line. Blank
    lines are skipped. The text is UTF-8, and may be compressed by gzip.

    Users and items are told by whole numbers; or by texts, where one of them has a letter and is no
    number: `007` and `7` are two users then. A column of texts is read line by line.

    Plain lines are read at about 6 million per second and core, on all cores. Unusual ones, with
    quotes, spaces around numbers or exponents, go line by line at 0.3 million, as do those with
    mistakes. At its peak a rating takes about 37 bytes: 3.7 GB for 100 million.

    Args:
      path: the file.
      user: the column that tells users; found by the usual names, such as userId, if None.
      item: the column that tells items, likewise.
      rating: the column of the ratings, likewise.
      num_users: what numbers of users must be less than; any, or texts, if None. Users that occur
        are renumbered in any case, as in `from_arrays`.
      num_items: likewise for items.
      chunk_bytes: how much is read at a time.

    Returns:
      The table.

    Raises:
      InputError: the file cannot be read, is not UTF-8 text or has no ratings; a column is missing
        or cannot be guessed; a line has too few or too many fields; a number of a user or an item
        is no integer, negative or too large, or a text is empty or longer than a name; a rating is
        not a finite number; or a user has rated an item twice. The sentence names the line and the
        value.
    """
    count("chunk_bytes", chunk_bytes)
    names = {"user": user, "item": item, "rating": rating}
    bounds = bound("num_users", num_users), bound("num_items", num_items)
    texts: tuple[Texts, Texts] = None, None
    while True:
        try:
            form, columns, skipped = _read(path, names, bounds, texts, chunk_bytes)
            break
        except _TextError as found:  # from the start again, with no text of the last time
            told = [seen is not None or k == found.column for k, seen in enumerate(texts)]
            texts = {} if told[0] else None, {} if told[1] else None
    if not columns[0].size:
        raise InputError(
            f"{path} has no ratings below its line {form.line}",
            value=path,
            remedy="add a line for each",
        )
    number = partial(_line_of, skipped=skipped)
    table = tabulated(*columns, texts=form.texts, place=f"{path}, line", number=number)
    return replace(table, ignored=form.ignored)


_SEPARATORS = ("\t", "::", ",", ";", " ")
_USUAL = {
    "user": {"user", "userid", "userno", "uid", "client", "clientid", "customer", "customerid"},
    "item": {"item", "itemid", "itemno", "iid", "movie", "movieid", "product", "productid"}
    | {"book", "bookid", "anime", "animeid", "artist", "artistid", "joke", "jokeid", "song"}
    | {"songid", "track", "trackid"},
    "rating": {"rating", "ratings", "star", "stars", "score", "value", "userrating", "bookrating"},
}
_KEYWORDS = {role: f"{role}=" for role in _USUAL}  # how a caller names a column
_INTEGER = re.compile(r"[+-]?[0-9]{1,99}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_ENDLESS = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_LARGEST = float(np.finfo(np.float32).max)
_AHEAD = 8  # chunks that are read before they are needed
_MOST_BLANK = 2**20  # lines: a few kilobytes that were compressed may stand for any number of them

_Columns = tuple[np.ndarray, np.ndarray, np.ndarray]  # users, items, values


class _TextError(Exception):
    """A column of users (0) or of items (1) tells them by texts."""

    def __init__(self, column: int):
        self.column = column


@short_repr
@dataclass(frozen=True)
class _Form:
    """How ratings are written in a file."""

    path: str | Path
    line: int  # the first line that is not blank, counted from 1
    named: bool  # whether that line names the columns
    separator: str
    fields: int  # per line
    places: tuple[int, ...]  # of user, item and rating
    names: tuple[str, ...]  # of these columns
    bounds: tuple[Bound, Bound]  # of users and items
    texts: tuple[Texts, Texts]  # of users and items; those that occurred, numbered in their order
    ignored: tuple[str, ...]  # the other columns, by their names or numbers


# --- The file and its first line ---


def _read(
    path: str | Path,
    names: Mapping[str, str | None],
    bounds: tuple[Bound, Bound],
    texts: tuple[Texts, Texts],
    chunk_bytes: int,
) -> tuple[_Form, _Columns, list[int]]:
    """Return how ratings are written, these, and the lines without one."""
    with _opened(path) as file:
        line, head = _head(path, file)
        form = _form(path, line, head, names, bounds, texts)
        chunks = _chunks(path, file, b"" if form.named else head, chunk_bytes)
        return form, *_columns(form, chunks)


@contextmanager
def _opened(path: str | Path) -> Iterator[BufferedIOBase]:
    try:
        with opened(path) as file:
            zipped = file.peek(2).startswith(b"\x1f\x8b")
            yield gzip.GzipFile(fileobj=file) if zipped else file
    except (EOFError, zlib.error) as error:
        reason = str(error).rstrip(".")
        raise InputError(f"{path} cannot be read: {reason}", value=path) from None


def _head(path: str | Path, file: BufferedIOBase) -> tuple[int, bytes]:
    """Return the first line that is not blank, with its number."""
    for line, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
        if len(raw) == LONGEST_LINE:
            raise _too_long(path, line)
        if line > _MOST_BLANK:
            raise _too_blank(path)
        head = raw.removeprefix(b"\xef\xbb\xbf")  # byte order mark
        if head.strip():
            return line, head
    raise InputError(
        f"{path} is empty",
        value=path,
        remedy="it must have a line for each rating: user, item, rating",
    )


def _form(
    path: str | Path,
    line: int,
    head: bytes,
    names: Mapping[str, str | None],
    bounds: tuple[Bound, Bound],
    texts: tuple[Texts, Texts],
) -> _Form:
    """Tell from the first line how the others are to be read."""
    separator, cells = _separated(path, line, _text(path, line, head).rstrip("\r\n"))
    chosen = any(name is not None for name in names.values())
    named = chosen or not any(map(_NUMBER.fullmatch, cells))
    places = range(3)
    if named:
        places = [_place(path, line, cells, role, name) for role, name in names.items()]
        if len(set(places)) < 3:
            raise InputError(
                f"{path}, line {line}: user, item and rating must be three columns, but they are "
                f"{listed(cells[place] for place in places)}; name them by {{user}}, {{item}}, "
                "{rating}.",
                others=_KEYWORDS,
            )
    shown = [cells[place] for place in places] if named else names
    ignored = tuple(
        cell if named else str(number)
        for number, cell in enumerate(cells, start=1)
        if number - 1 not in places
    )
    told = (tuple(places), tuple(shown), bounds, texts, ignored)
    return _Form(path, line, named, separator, len(cells), *told)


def _separated(path: str | Path, line: int, text: str) -> tuple[str, list[str]]:
    """Return what separates the fields of the first line, and these."""
    occurring = [separator for separator in _SEPARATORS if separator in text]
    for separator in sorted(occurring, key=lambda each: (each == " ", text.index(each))):
        with suppress(InputError):
            cells = [cell.strip() for cell in _cells(path, line, text, separator)]
            if len(cells) >= 3:
                return separator, cells
    raise InputError(
        f"{path}, line {line}: there must be three fields or more, user, item and rating, "
        f"separated by tabs, '::', commas, semicolons or spaces, but there is {text!r:.80}",
        value=path,
    )


def _place(path: str | Path, line: int, header: Sequence[str], role: str, name: str | None) -> int:
    """Return which column the user's `name` means, or a usual name of its role."""
    usual = [re.sub("[^a-z0-9]", "", cell.lower()) in _USUAL[role] for cell in header]
    fits = usual if name is None else [cell == name for cell in header]
    places = [place for place, fit in enumerate(fits) if fit]
    if len(places) == 1:
        return places[0]
    columns = listed(repr(cell) for cell in header)
    problem = {
        (True, False): f"it is not clear which column is the {role}; name one by {{{role}}}",
        (True, True): f"several columns may be the {role}; name one by {{{role}}}",
        (False, False): f"there is no column {name!r}, which {{{role}}} names",
        (False, True): f"the column {name!r} is named twice; rename one of them",
    }[name is None, bool(places)]
    raise InputError(
        f"{path}, line {line}: {problem}. The columns are {columns}.", others=_KEYWORDS
    )


# --- Chunks of lines ---


def _chunks(path: str | Path, file: BufferedIOBase, rest: bytes, size: int) -> Iterator[bytes]:
    r"""Cut the file, and what has been read of it, at ends of lines, all of which become \n."""
    while block := file.read(size):
        lines, end, after = block.rpartition(b"\n")
        if end:
            yield _ends(rest + lines + end)
            rest = b""
        rest += after
        if len(rest) >= LONGEST_LINE:
            raise _too_long(path)
    if rest:
        yield _ends(rest).removesuffix(b"\n") + b"\n"


def _ends(lines: bytes) -> bytes:
    return lines.replace(b"\r\n", b"\n") if b"\r" in lines else lines


def _columns(form: _Form, chunks: Iterator[bytes]) -> tuple[_Columns, list[int]]:
    """Return users, items and values in the order of the file, and the lines without a rating."""
    line = form.line + form.named
    columns = [Column(dtype) for dtype in (np.int32, np.int32, np.float32)]
    skipped = list(range(1, line))
    for chunk, part in _parts(form, chunks):
        if part is None:
            part, blank = read_line_by_line(form, chunk, line)
            skipped += blank
            if len(skipped) > _MOST_BLANK:
                raise _too_blank(form.path) from None
        for column, values in zip(columns, part, strict=True):
            if more := column.growth(values):
                check_room(form.path, more)
            column.extend(values)
        line += chunk.count(b"\n")
    users, items, values = (column.taken() for column in columns)
    return (users, items, values), skipped


def _parts(form: _Form, chunks: Iterator[bytes]) -> Iterator[tuple[bytes, _Columns | None]]:
    """Read chunks on all cores, some ahead; None for one that is to be read line by line.

    What is wrong with the file is told once all before it has been read.
    """

    def plain(chunk: bytes) -> _Columns | None:
        with suppress(NotPlainError):
            require(form.texts == (None, None))
            return read_at_once(form, chunk)
        return None

    waiting: deque[tuple[bytes, Future[_Columns | None]]] = deque()
    wrong = None
    with ThreadPoolExecutor(cores()) as pool:
        while True:
            try:
                chunk = None if wrong else next(chunks, None)
            except (InputError, EOFError, OSError, zlib.error) as error:
                chunk, wrong = None, error
            if chunk is not None:
                waiting.append((chunk, pool.submit(plain, chunk)))
                if len(waiting) < _AHEAD:
                    continue
            if not waiting:
                break
            done, part = waiting.popleft()
            yield done, part.result()
    if wrong is not None:
        raise wrong


def _too_long(path: str | Path, line: int | None = None) -> InputError:
    where = "a line" if line is None else f"line {line}"
    return InputError(
        f"{path}: {where} is longer than {LONGEST_LINE} bytes",
        value=path,
        remedy="it must have a line for each rating, which ends in \\n",
    )


def _too_blank(path: str | Path) -> InputError:
    return InputError(
        f"{path} has more than {_MOST_BLANK} blank lines", value=path, remedy="remove them"
    )


def _line_of(entry: int, skipped: Sequence[int]) -> int:
    """Return the line of a rating, counted from 0, where some lines hold none."""
    line = entry + 1
    for other in skipped:
        if other > line:
            break
        line += 1
    return line


# --- Line by line: slow, says what is wrong ---


def read_line_by_line(form: _Form, chunk: bytes, first: int) -> tuple[_Columns, list[int]]:
    """Return the ratings in a chunk whose first line has the given number, and the blank lines."""
    users, items, values, blank = [], [], [], []
    for line, raw in enumerate(chunk.split(b"\n")[:-1], start=first):
        text = _text(form.path, line, raw)
        if not text.strip():
            blank.append(line)
            continue
        cells = _cells(form.path, line, text, form.separator)
        if len(cells) != form.fields:
            raise InputError(
                f"{form.path}, line {line}: the number of fields must be {form.fields}, as in "
                f"line {form.line}, but it is {len(cells)} in {text.strip()!r:.80}",
                value=form.path,
                remedy="repair or remove that line",
            )
        user, item, value = (cells[place].strip() for place in form.places)
        users.append(_identity(form, line, 0, user))
        items.append(_identity(form, line, 1, item))
        values.append(_value(form, line, value))
    return (_narrow(users), _narrow(items), np.array(values, np.float32)), blank


def _narrow(identities: list[int]) -> np.ndarray:
    fits = max(identities, default=0) <= np.iinfo(np.int32).max
    return np.array(identities, np.int32 if fits else np.int64)


def _text(path: str | Path, line: int, raw: bytes) -> str:
    if not _is_text(raw):
        raise InputError(
            f"{path}, line {line}: the file must be text in UTF-8, but there is {raw[:40]!r}",
            value=path,
            remedy="save it so, or unpack it",
        )
    return raw.decode("utf-8")


def _is_text(raw: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        return b"\0" not in raw and (raw.isascii() or bool(raw.decode("utf-8")))
    return False


def _cells(path: str | Path, line: int, text: str, separator: str) -> list[str]:
    cells = text.split(separator)
    if '"' in text and len(separator) == 1:
        reader = csv.reader([text], delimiter=separator, skipinitialspace=True, strict=True)
        try:
            cells = next(reader)
        except csv.Error as error:
            raise InputError(
                f"{path}, line {line}: quotes must enclose whole fields within the line, but in "
                f"{text.strip()!r:.80} they do not ({error})",
                value=path,
                remedy="repair or remove that line",
            ) from None
    return [cell for cell in cells if cell] if separator == " " else cells


def _identity(form: _Form, line: int, column: int, cell: str) -> int:
    texts = form.texts[column]
    if texts is not None:
        if not 0 < len(cell) <= LONGEST_NAME:
            raise _mistake(form, line, column, f"have 1 to {LONGEST_NAME} characters", cell)
        return texts.setdefault(cell, len(texts))
    if not _INTEGER.fullmatch(cell):
        numeric = _NUMBER.fullmatch(cell) or _ENDLESS.fullmatch(cell)
        if form.bounds[column] == bound("", None) and not numeric and any(map(str.isalpha, cell)):
            raise _TextError(column)
        raise _mistake(form, line, column, "be a whole number", cell)
    value, allowed = int(cell), form.bounds[column]
    if value < 0:
        raise _mistake(form, line, column, "not be negative", cell)
    if value >= allowed.limit:
        raise _mistake(form, line, column, f"be less than {allowed.shown}", cell, allowed.remedy)
    return value


def _value(form: _Form, line: int, cell: str) -> float:
    number = _NUMBER.fullmatch(cell)
    if not number and not _ENDLESS.fullmatch(cell):
        raise _mistake(form, line, 2, "be a number", cell)
    value = float(cell)
    if not abs(value) <= _LARGEST:
        raise _mistake(form, line, 2, "be finite in float32", cell)
    return value


def _mistake(
    form: _Form,
    line: int,
    column: int,
    demand: str,
    cell: str,
    remedy: str = "repair or remove that line",
) -> InputError:
    return InputError(
        f"{form.path}, line {line}: {form.names[column]} must {demand}, but it is {cell!r:.60}",
        value=cell,
        remedy=remedy,
    )


# --- At once: fast, takes plain numbers only ---


def read_at_once(form: _Form, chunk: bytes) -> _Columns:
    """Return the ratings in a chunk; what this takes, `read_line_by_line` reads in the same way."""
    require(b'"' not in chunk and _is_text(chunk))
    mark = form.separator.encode()
    if len(mark) > 1:
        chunk = chunk.replace(mark, b"\xff")  # which is in no text
        mark = b"\xff"
    data = np.frombuffer(chunk, np.uint8)
    cuts = np.flatnonzero((data == ord(mark)) | (data == ord("\n")))
    require(cuts.size % form.fields == 0)
    ends = cuts.reshape(-1, form.fields)
    require((data[ends] == ord("\n")).sum() == len(ends))
    require((data[ends[:, -1]] == ord("\n")).all())
    starts = np.concatenate([[0], cuts[:-1] + 1]).reshape(ends.shape)
    require(mark != b" " or (ends > starts).all())
    user, item, rating = ((starts[:, place], ends[:, place]) for place in form.places)
    users, items = integers(data, *user), integers(data, *item)
    for column, allowed in zip((users, items), form.bounds, strict=True):
        require(int(column.max()) < allowed.limit)
    return users, items, decimals(data, *rating)
