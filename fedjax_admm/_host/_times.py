"""Times as users write them: ISO 8601, epoch numbers, and dates with the day or the month first.

The form of a column is found from its texts, or asked for: one of `FORMS`, or a pattern of
`datetime.strptime` such as `%d.%m.%y`.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from fedjax_admm._checks import InputError

FORMS = NUMBERS, ISO, DAY_FIRST, MONTH_FIRST = ("numbers", "iso", "day-first", "month-first")
_DATE = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})(?:[ T,]+(\d{1,2})(:.+))?")


def form_of(what: str, texts: Sequence[str], number: re.Pattern[str]) -> str:
    """Return how the times of a column are written; `what` names the column in a sentence."""
    first = texts[0] if texts else "0"
    if number.fullmatch(first):
        return NUMBERS
    if not _DATE.fullmatch(first):
        return ISO
    dates = [found for text in texts if (found := _DATE.fullmatch(text))]
    if any(int(found[1]) > 12 for found in dates):
        return DAY_FIRST
    if any(int(found[3]) > 12 for found in dates):
        return MONTH_FIRST
    if dates[0][2] == ".":  # dates with dots have the day first
        return DAY_FIRST
    raise InputError(
        f"{what} may have the day or the month first, as in {first!r}",
        value=first,
        remedy=f"say which by {{time_format}} {DAY_FIRST} or {MONTH_FIRST}",
        others=["time_format"],
    )


def seconds_of(text: str, form: str) -> float | None:
    """Return the seconds since 1970 of a time, in UTC if it has no zone; None if it is none."""
    try:
        if "%" in form:
            moment = datetime.strptime(text, form)
        else:
            moment = datetime.fromisoformat(_as_iso(text, form))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _as_iso(text: str, form: str) -> str:
    if form == ISO:
        return f"{text}-01" if re.fullmatch(r"\d{4}-\d{2}", text) else text
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError
    first, _, second, year, hour, rest = found.groups()
    day, month = (first, second) if form == DAY_FIRST else (second, first)
    clock = "" if hour is None else f"T{hour:0>2}{rest}"
    return f"{year}-{month:0>2}-{day:0>2}{clock}"
