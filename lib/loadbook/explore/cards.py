"""How objects look in a notebook: the markup and style of the reports, and plain text wherever there is no browser."""

from __future__ import annotations

from dataclasses import replace

from loadbook.report.blocks import Block, notebook_style


class Card:
    """An object that shows itself as a block of a report; `block` says how."""

    def _shown(self) -> Block:
        """Return what is shown."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._shown().text

    def _repr_html_(self) -> str:
        return str(self._repr_mimebundle_()["text/html"])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        """Return the output for Jupyter: what the block adds comes with it."""
        return styled(self._shown())._repr_mimebundle_()


def styled(block: Block) -> Block:
    """Return a block with the style of the reports in it, so that a cell of its own looks like one of a page."""
    return replace(block, html=notebook_style() + block.html)
