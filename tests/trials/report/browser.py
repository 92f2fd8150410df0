"""A page as a real browser shows it: its document after its scripts, its console, a picture."""

import base64
import hashlib
import re
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

    def answer(self, page, script, **size):
        """Return what an expression gives in a page, as text; its policy lets this script run."""
        script = f"document.title = String({script});"
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        text = page.read_text()
        assert text.count("script-src &#x27;sha256-") == 1
        text = text.replace("script-src ", f"script-src &#x27;sha256-{digest}&#x27; ")
        copy = self.folder / "asked.html"
        copy.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
        document, console = self.document(copy, **size)
        assert console == []
        return re.search("<title>(.*?)</title>", document, re.DOTALL)[1]

    def overflow(self, page, width):
        """Return by how many pixels a page is wider than a window of some width.

        Windows have a least width, which a frame has not.
        """
        script = (
            "parent.postMessage(document.documentElement.scrollWidth - innerWidth, '*') || "
            "document.title"
        )
        self.answer(page, script)
        frame = self.folder / "frame.html"
        frame.write_text(
            f"<iframe src=asked.html style='width:{width}px;height:800px;border:0'></iframe>"
            "<script>onmessage = told => document.title = told.data</script>"
        )
        document, _ = self.document(frame)
        return int(re.search("<title>(.*?)</title>", document)[1])
