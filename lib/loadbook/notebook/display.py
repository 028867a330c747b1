"""Objects that a cell displays: blocks in the style of the reports, plain text without a browser, and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import unknown_name_error
from loadbook.report.blocks import Block
from loadbook.report.nodes import Picture, Stylesheet

if TYPE_CHECKING:
    from loadbook.report.figures.base import ReportFigure


class Displayable:
    """An object that a cell displays as a block of a report."""

    def _block(self) -> Block:
        """Return the block to display."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._block().text

    def _repr_html_(self) -> str:
        return str(self._repr_mimebundle_()["text/html"])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        """Return the output for Jupyter, with the further MIME types of the block."""
        return styled(self._block())._repr_mimebundle_()


def styled(block: Block) -> Block:
    """Return a block with the style of the reports in it, as a cell outside of a report needs it."""
    return Block(Stylesheet(), block, data=block.data)


class FigureView(Displayable):
    """A figure of a run with its caption; `figure()` is matplotlib's object, `save(path)` writes it to a file."""

    def __init__(self, figure: ReportFigure) -> None:
        self._figure, self._picture = figure, Block(Picture(figure))

    def _block(self) -> Block:
        """Return the picture with its caption and its text for screen readers."""
        return self._picture

    @property
    def answer(self) -> str:
        """The conclusion of the figure, in one sentence."""
        return self._figure.caption

    def figure(self) -> Any:
        """Return the figure as an object of matplotlib, to go on with."""
        return self._figure.draw()

    def save(self, path: str) -> Path:
        """Write the figure to a file in the format of its suffix (.svg, .png, .pdf)."""
        out = Path(path)
        figure = self.figure()
        kinds = sorted(figure.canvas.get_supported_filetypes())
        if out.suffix.removeprefix(".") not in kinds:
            raise unknown_name_error("kind of picture", out.suffix, kinds, plural="kinds")
        figure.savefig(out)
        return out
