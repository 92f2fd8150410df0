"""The gallery has every experiment: its picture, its time, its family."""

import runpy

from fedjax_admm.trials.experiments import headlines
from tests.package.sources import ROOT


def test_every_experiment_is_in_the_gallery_with_its_picture_and_its_time():
    # The file alone: its package needs Sphinx, which the extra `dev` does not bring.
    gallery = runpy.run_path(str(ROOT / "docs/site_pages/gallery.py"))
    ((_, page),) = gallery["gallery_pages"](ROOT / "docs")
    own = [each for each in headlines() if each.origin is None]
    assert len(own) > 30
    for each in own:
        assert page.count(f"### `{each.name}`\n") == 1
        assert f"/gallery/{each.name}.png" in page
        assert f"{each.usual_seconds:g} s" in page
    pictures = {path.stem for path in (ROOT / "docs" / "gallery").glob("*.png")}
    assert pictures == {each.name for each in own}
