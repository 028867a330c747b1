"""Legibility check of a figure: texts are large enough, inside the figure and do not overlap; lines stay inside."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from loadbook.report.figures import base


def must_be_legible(figure: Figure, placed: Callable[[Text], bool] = lambda text: True) -> None:
    """Assert that all texts have the minimum size, and that those with `placed(text)` are inside and do not overlap.

    Lines that belong to no panel, such as those from a label to its curve, must end inside the figure.
    """
    figure.draw_without_rendering()
    found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in found if placed(text)]
    for text in found:
        assert text.get_fontsize() >= base.SMALLEST_PT, text
    for words, box in boxes:
        assert min(box.x0, box.y0) >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1, words
    for line in figure.lines + [artist for artist in figure.artists if isinstance(artist, Line2D)]:
        box = line.get_window_extent()
        assert min(box.x0, box.y0) >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1, line
    for (one, first), (two, second) in itertools.combinations(boxes, 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        tall = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert wide <= 1.5 or tall <= 2.5, (one, two, wide, tall)
