"""A figure module of report.figures as a block: drawn wide and narrow, with its caption and its words for the blind."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from markupsafe import Markup

from loadbook.report.blocks import Block, clean, render


class FigureModule(Protocol):
    """What every module of report.figures offers."""

    draw: Callable[..., Any]
    answer: Callable[..., str]
    how: Callable[..., str]
    alt: Callable[..., str]


@dataclass(frozen=True)
class Shown:
    """A drawn figure: two data URIs and three sentences."""

    wide: str
    narrow: str
    answer: str
    how: str
    alt: str


def drawn(module: FigureModule, *data: Any, **options: Any) -> Shown:
    """Draw a figure in both layouts; `data` and `options` are what the module documents."""
    wide, narrow = (_data_uri(module.draw(*data, **options, narrow=narrow)) for narrow in (False, True))
    return Shown(wide, narrow, *(f(*data, **options) for f in (module.answer, module.how, module.alt)))


def markup(shown: Shown) -> Markup:
    """Return a drawn figure as markup."""
    return render("figure.html.j2", figure=shown)


def show(module: FigureModule, *data: Any, **options: Any) -> Block:
    """Return a figure as a block, the one helper behind every picture of a page."""
    shown = drawn(module, *data, **options)
    return Block(str(markup(shown)), str(clean(f"{shown.answer}\n{shown.alt}")))


def _data_uri(figure: Any) -> str:
    from loadbook.report.figures.common import to_svg

    return "data:image/svg+xml;base64," + base64.b64encode(to_svg(figure)).decode()
