"""A page as a real browser shows it: its document after its scripts, its console, a picture."""

import shutil
import subprocess

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr"),
    *("--virtual-time-budget=2000", "--run-all-compositor-stages-before-draw"),
)


class Browser:
    """Chromium, with a profile of its own in a folder that the test gives."""

    def __init__(self, folder):
        self.program = next(filter(None, map(shutil.which, _NAMES)), None)
        if self.program is None:
            pytest.skip(f"none of {', '.join(_NAMES)} is installed")
        self.folder = folder

    def _run(self, page, *options, width=1000, height=800):
        done = subprocess.run(
            [
                *(self.program, *_OPTIONS, f"--user-data-dir={self.folder / 'profile'}"),
                *(f"--window-size={width},{height}", *options, page.as_uri()),
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE:" in line]

    def document(self, page, *options, **size):
        """Return the document after its scripts as HTML, and the lines of the console."""
        return self._run(page, "--dump-dom", *options, **size)

    def picture(self, page, out, *options, **size):
        """Write a screenshot."""
        self._run(page, f"--screenshot={out}", *options, **size)
        assert out.stat().st_size > 10_000
