"""The gallery has every experiment: its picture, its time, its family."""

import runpy

from fedjax_admm.trials.experiments import headlines
from tests.package.sources import ROOT


def test_every_experiment_is_in_the_gallery_with_its_picture_and_its_time():
    # The file alone: its package needs Sphinx, which the extra `dev` does not bring.
    gallery = runpy.run_path(str(ROOT / "docs/site_pages/gallery.py"))
    pages = dict(gallery["gallery_pages"](ROOT / "docs"))
    own = [each for each in headlines() if each.origin is None]
    assert len(own) > 30
    for each in own:
        assert pages["gallery.md"].count(f":link: gallery/{each.name}\n") == 1
        assert f":img-bottom: /gallery/{each.name}.png" in pages["gallery.md"]
        page = pages[f"gallery/{each.name}.md"]
        assert page.startswith(f"# `{each.name}`\n")
        assert f"/gallery/{each.name}.png" in page
        assert f"{each.usual_seconds:g} s" in page
    pictures = {path.stem for path in (ROOT / "docs" / "gallery").glob("*.png")}
    assert pictures == {each.name for each in own}
