"""What a command leaves, and the command line called in this process."""

import contextlib
import io
import re
import sys

import pytest

from fedjax_admm.trials.cli import _environment as environment, main


class Outcome:
    """What a command left: its exit code and what it printed."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def mistake(self):
        """Check that a mistake was told as promised, and return the sentence."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        assert re.fullmatch(r"fedjax-admm: [^\n]+[.?]\n", self.err), self.err
        assert not self.err.endswith("..\n")
        assert "Traceback" not in self.err
        return self.err.removeprefix("fedjax-admm: ").rstrip("\n")


def stand_aside(patch):
    """Leave JAX as it is: it has started with the tests' settings."""
    patch.setattr(environment, "prepare", lambda **options: None)
    patch.setattr(environment, "use_x64", lambda wide: None)


def called(folder, *words):
    """Run the command line in this process, in a folder; `stand_aside` comes before."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["fedjax-admm", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
    return Outcome(stopped.value.code or 0, out.getvalue(), err.getvalue())
