"""The palette's promises, computed from its constants: contrast (WCAG 2.2) and distance for colour-blind readers."""

from __future__ import annotations

import itertools
import math

import pytest

from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.stats.results import VERDICT_ORDER

# Machado, Oliveira, Fernandes 2009, severity 1.0; they apply to linear RGB
MATRICES = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
WHITE = (0.95047, 1.0, 1.08883)
# the answer to a one-sided question looks like equivalence: no page has both
LOOKS = {kind: style for kind, style in palette.VERDICTS.items() if kind != "no-loss"}
STYLES = {**LOOKS, "baseline": palette.BASELINE, "aa": palette.AA, "control": palette.CONTROL}
GROUNDS = (palette.BACKGROUND, palette.BAND, palette.BLOCK_TINT, palette.WINDOW_TINT)


def contrast_ratio(first: str, second: str) -> float:
    """Return the contrast ratio of two `#RRGGBB` colours (WCAG 2.2, relative luminance)."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def linear_rgb(colour: str) -> tuple[float, float, float]:
    """Return the linear-light red, green and blue (0 to 1) of `#RRGGBB` (IEC 61966-2-1)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return red, green, blue


def _luminance(colour: str) -> float:
    red, green, blue = linear_rgb(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _times(matrix, vector):
    return tuple(sum(m * v for m, v in zip(row, vector, strict=True)) for row in matrix)


def _lab(colour: str, vision: str) -> tuple[float, float, float]:
    seen = tuple(min(1.0, max(0.0, c)) for c in _times(MATRICES[vision], linear_rgb(colour)))
    x, y, z = (v / w for v, w in zip(_times(XYZ, seen), WHITE, strict=True))
    f = [v ** (1 / 3) if v > (6 / 29) ** 3 else v * (29 / 6) ** 2 / 3 + 4 / 29 for v in (x, y, z)]
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


@pytest.mark.parametrize("vision", MATRICES)
def test_palette_verdict_colours_differ_for_colour_blind_readers(vision):
    fills = {kind: style.fill for kind, style in LOOKS.items() if kind != "invalid"}
    for (one, first), (two, second) in itertools.combinations(fills.items(), 2):
        assert math.dist(_lab(first, vision), _lab(second, vision)) >= 15, (vision, one, two)


def test_palette_contrast_formula_matches_known_values():
    assert contrast_ratio("#000000", "#FFFFFF") == pytest.approx(21)
    assert contrast_ratio("#767676", "#FFFFFF") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("kind", STYLES)
def test_palette_marks_and_labels_have_enough_contrast(kind):
    style = STYLES[kind]
    assert contrast_ratio(style.text, palette.BACKGROUND) >= 4.5
    assert all(contrast_ratio(style.edge, ground) >= 3.0 for ground in GROUNDS)


@pytest.mark.parametrize("ground", [palette.BACKGROUND, palette.TINT])
def test_neutral_text_colours_have_enough_contrast(ground):
    for text in (palette.INK, palette.SOFT, palette.LINK, palette.DOUBT_TEXT):
        assert contrast_ratio(text, ground) >= 4.5
    assert contrast_ratio(palette.DOUBT_TEXT, palette.DOUBT_BOX) >= 4.5


def test_palette_lines_have_enough_contrast():
    assert contrast_ratio(palette.DOUBT, palette.BACKGROUND) >= 3.0
    assert contrast_ratio(palette.DOUBT, palette.WINDOW_TINT) >= 3.0
    assert contrast_ratio(palette.OTHERS, palette.BACKGROUND) >= 3.0


def test_palette_verdicts_have_unique_glyphs_and_markers():
    glyphs = [s.glyph for kind, s in STYLES.items() if kind != "baseline"]
    assert len(set(glyphs)) == len(glyphs)
    marks = [(s.marker, s.hollow) for kind, s in LOOKS.items() if kind != "invalid"]
    marks += [(palette.AA.marker, True), (palette.CONTROL.marker, True), (palette.PUBLISHED.marker, True)]
    assert len(set(marks)) == len(marks)
    assert not {m for m, _ in marks} & set(palette.SPARE_MARKERS)
    assert "x" not in palette.SPARE_MARKERS


@pytest.mark.parametrize(
    ("name", "better", "worse"),
    [("ok_per_s", "faster", "slower"), ("latency", "shorter", "longer"), ("errors", "fewer", "more")],
)
def test_palette_verdict_words_follow_the_metric(name, better, worse):
    assert palette.verdict_word("better", get_metric(name)) == better
    assert palette.verdict_word("worse", get_metric(name)) == worse
    assert len({palette.verdict_word(kind, get_metric(name)) for kind in VERDICT_ORDER}) == len(VERDICT_ORDER)
    assert palette.verdict_word("worse", get_metric(name), "non-inferiority") == "loses more"


def test_palette_only_equivalent_and_no_loss_share_a_style():
    assert palette.VERDICTS["no-loss"] == palette.VERDICTS["equivalent"]
    assert len({style.fill for style in palette.VERDICTS.values()}) == len(palette.VERDICTS) - 1


@pytest.mark.parametrize("ground", [palette.DARK["paper"], palette.DARK["tint"]])
def test_texts_keep_their_contrast_on_a_dark_ground(ground):
    texts = [palette.DARK[name] for name in ("ink", "soft", "link")]
    for colour in (*texts, *(style.dark_text for style in palette.VERDICTS.values())):
        assert contrast_ratio(colour, ground) >= 4.5, colour
    assert contrast_ratio(palette.DARK["doubt-text"], palette.DARK["doubt-box"]) >= 4.5
