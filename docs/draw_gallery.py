"""Draw the pictures of the gallery from finished runs of every experiment at its defaults.

`python docs/draw_gallery.py RESULTS` reads `RESULTS/NAME` for each experiment (run those that are
missing with `fedjax-admm run NAME`) and writes `docs/gallery/NAME.png`, in few colours, so that the
repository stays small. A picture states the finding of today, as its page does, not that of the day
of its run.
"""

import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from PIL import Image

from fedjax_admm.trials import experiments, load

GALLERY = Path(__file__).parent / "gallery"
DOTS = 96  # per inch
COLOURS = 96


def main(folder: Path) -> None:
    """Draw every experiment that has a finished run in a folder, and name the others."""
    GALLERY.mkdir(exist_ok=True)
    for headline in experiments.headlines():
        finished = folder / headline.name
        if not (finished / "trials.npz").exists():
            print(f"{finished} holds no finished run: fedjax-admm run {headline.name}")
            continue
        drawn = BytesIO()
        results = load(finished)
        if results.config["data"] != headline.measured_on:
            print(f"{finished} is not a run on {headline.measured_on}")
            continue
        verdict = headline.findings.partition("\n")[0]
        results = replace(results, config=results.config | {"verdict": verdict})
        figure = experiments.find(headline.name).draw(results)
        figure.savefig(drawn, format="png", dpi=DOTS)
        few = Image.open(drawn).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(GALLERY / f"{headline.name}.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
