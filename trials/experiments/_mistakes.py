"""What went wrong in a user's code, in a few words with the line where it did."""

import importlib
import traceback
from pathlib import Path

RAISED = (Exception, SystemExit, GeneratorExit)
"""What a user's code may raise; Ctrl-C is none of it."""


def described(error: BaseException, file: Path | None = None) -> str:
    """Return the kind of an error, where it stands in the user's code, and what it says."""
    if isinstance(error, SyntaxError):
        message, place, line = error.msg, error.filename, error.lineno
    else:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith("<frozen ")
            and frame.filename != importlib.__file__
            and not Path(frame.filename).is_relative_to(Path(__file__).parents[1])
        ]
        # The last line of the user's own: what it calls elsewhere is not his.
        folder = file.parent if file else Path(frames[0].filename).parent if frames else None
        own = [frame for frame in frames if Path(frame.filename).parent == folder]
        place, line = (own[-1].filename, own[-1].lineno) if own else (None, None)
        message = str(error)
    where = "" if place is None or place == str(file) else f" in {place}"
    if line is not None:
        where += f", line {line}" if where else f" in line {line}"
    message = f": {' '.join(message.split())}" if message else ""
    return f"{type(error).__name__}{where}{message}"
