"""Colours are readable: on white, in grey, and without red, green or blue cones."""

from itertools import combinations

import numpy as np
import pytest

from fedjax_admm._drawings import COLOURS
from fedjax_admm.trials.figures._style import distinct_styles, family_styles

# G. M. Machado, M. M. Oliveira, L. A. F. Fernandes, "A physiologically-based model for simulation
# of color vision deficiency", IEEE TVCG 15, 2009: severity 1, in linear RGB.
EYES = {
    "all cones": np.eye(3),
    "no red cones": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green cones": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue cones": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], LUMINANCE, [0.0193339, 0.1191920, 0.9503041]])
NAMES = [f"method {i}" for i in range(18)]


def linear(colour):
    """Return a colour like "#a0b1c2" in linear RGB."""
    part = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """Return linear RGB in CIELAB: lightness from 0 to 100, and two colour axes."""
    ratio = TO_XYZ @ np.clip(rgb, 0, 1) / np.array([0.95047, 1, 1.08883])
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def lightness(colour):
    return lab(linear(colour))[0]


def test_the_measures_know_what_is_known():
    assert lightness("#ffffff") == pytest.approx(100, abs=0.01)
    assert lightness("#777777") == pytest.approx(50.03, abs=0.05)
    red, green = (np.array(EYES["no green cones"]) @ linear(c) for c in ("#ff0000", "#00aa00"))
    usual = np.linalg.norm(lab(linear("#ff0000")) - lab(linear("#00aa00")))
    assert np.linalg.norm(lab(red) - lab(green)) < usual / 3


@pytest.mark.parametrize("colour", COLOURS)
def test_every_colour_has_the_contrast_of_graphics_with_white(colour):
    # Web Content Accessibility Guidelines 2.1, criterion 1.4.11.
    assert 1.05 / (LUMINANCE @ linear(colour) + 0.05) >= 3


@pytest.mark.parametrize("eyes", EYES)
def test_any_two_colours_are_told_apart(eyes):
    seen = [lab(np.array(EYES[eyes]) @ linear(colour)) for colour in COLOURS]
    # A difference of 2.3 is just noticed; lines are thin.
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 18


def test_any_two_colours_are_told_apart_in_grey():
    shades = sorted(map(lightness, COLOURS))
    assert np.min(np.diff(shades)) > 4.5


@pytest.mark.parametrize("styles", [family_styles, distinct_styles])
def test_methods_of_similar_grey_have_other_lines_and_markers(styles):
    looks = list(styles(NAMES).values())
    for (i, one), (j, other) in combinations(enumerate(looks), 2):
        assert one["marker"] != other["marker"]
        close = abs(lightness(one["color"]) - lightness(other["color"])) < 15
        if close and j - i < 8:
            assert one["linestyle"] != other["linestyle"], (i, j)


def test_a_family_shares_its_colour_and_nothing_else():
    looks = family_styles([f"one, {i}" for i in range(8)]).values()
    assert {look["color"] for look in looks} == {COLOURS[0]}
    assert len({str(look["linestyle"]) for look in looks}) == 8
    assert len({look["marker"] for look in looks}) == 8
