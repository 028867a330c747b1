"""How objects look in a notebook: the markup and style of the reports, and plain text wherever there is no browser."""

from __future__ import annotations

from loadbook.report.blocks import Block, notebook_style


class Card:
    """An object that shows itself as a block of a report; `block` says how."""

    def _shown(self) -> Block:
        """Return what is shown."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._shown().text

    def _repr_html_(self) -> str:
        return styled(self._shown())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        """Return the output for Jupyter: what the block adds comes with it."""
        block = self._shown()
        return {"text/html": styled(block), "text/plain": block.text, **block.data}


def styled(block: Block) -> str:
    """Return a block's HTML with the style of the reports, so that a cell of its own looks like one of a page."""
    return f'{notebook_style()}<div class="lb cell">{block.html}</div>'
