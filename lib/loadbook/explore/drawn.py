"""One figure of a report in a cell: its picture and words, matplotlib's figure to go on with, a file of it."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from loadbook.core.names import unknown_name_error
from loadbook.explore.cards import Card
from loadbook.report.blocks import Block
from loadbook.report.show import figure_block


class Drawn(Card):
    """A figure of a run: shown in a cell with its caption; `figure()` is matplotlib's, `save(path)` writes it."""

    def __init__(self, module: Any, *data: Any, **options: Any) -> None:
        self._module, self._data, self._options = module, data, options

    def _shown(self) -> Block:
        """Return the picture, wide and narrow, with its caption and its words for the blind."""
        return self._block

    @cached_property
    def _block(self) -> Block:
        return figure_block(self._module, *self._data, **self._options)

    @property
    def answer(self) -> str:
        """What the figure says, in one sentence."""
        return str(self._module.answer(*self._data, **self._options))

    def figure(self, narrow: bool = False) -> Any:
        """Return the figure as an object of matplotlib, to go on with; `narrow` is the one for phones."""
        return self._module.draw(*self._data, **self._options, narrow=narrow)

    def save(self, path: str, narrow: bool = False) -> Path:
        """Write the figure to a file; its ending (.svg, .png, .pdf) says how."""
        out = Path(path)
        kinds = sorted(self.figure().canvas.get_supported_filetypes())
        if out.suffix.removeprefix(".") not in kinds:
            raise unknown_name_error("kind of picture", out.suffix, kinds, plural="kinds")
        self.figure(narrow).savefig(out)
        return out
