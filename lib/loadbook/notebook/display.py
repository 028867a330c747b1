"""How objects look in a notebook: the markup and style of the reports, and plain text wherever there is no browser.

One figure of a report in a cell: its picture and words, matplotlib's figure to go on with, a file of it.

Which metrics a run has, under the names that a user types: "ok_per_s", "latency p99".
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import unknown_name_error
from loadbook.core.metrics import METRICS
from loadbook.report.blocks import Block, figure_block, notebook_style
from loadbook.store.tables import RunData

if TYPE_CHECKING:
    import pandas as pd


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


KNOWN = ("trial", "treatment", "block", "slot", "status", "valid")


def measured(data: RunData) -> dict[str, tuple[str, str]]:
    """Return name -> metric and statistic of all that a run's trials have a total of.

    The statistic is left out where it is the metric's own ("latency" is "latency p50").
    """
    totals = data.measurements[data.measurements["driver"] == "*"]
    there = set(map(tuple, totals[["metric", "statistic"]].drop_duplicates().to_numpy().tolist()))
    found = {}
    for metric, statistic in sorted(there, key=lambda pair: (list(METRICS).index(pair[0]), pair[1])):
        own = METRICS[metric].default_statistic == statistic
        found[metric if own else f"{metric} {statistic}"] = (metric, statistic)
    return found


def which(data: RunData, name: str) -> tuple[str, str]:
    """Return metric and statistic that a name means; UsageError lists what was measured, the nearest first."""
    known, name = measured(data), str(name)
    metric, _, statistic = name.partition(" ")
    default = METRICS[metric].default_statistic if metric in METRICS else None
    found = known.get(metric if statistic == default else name)
    if found is None:
        raise unknown_name_error("metric", name, known, f"in run {data.run} of {data.study.name}", "measured there")
    return found


def wide(data: RunData, names: tuple[str, ...]) -> pd.DataFrame:
    """Return the trials in order of execution with a column per name of a metric, in base units."""
    columns = [*KNOWN, *(c for c in data.trials.columns if c not in KNOWN)]
    frame = data.trials[columns].sort_values("slot", ignore_index=True)
    for name in names:
        own = data.values(*which(data, name)).set_index("trial")["value"]
        frame[name] = frame["trial"].map(own)
    return frame[[*KNOWN, *names, *(c for c in columns if c not in KNOWN)]]


def worst(data: RunData, metric: str = "") -> pd.DataFrame:
    """Return every trial, that which is worst beside the median of its treatment first; see `Run.slowest`."""
    name = metric or data.study.metric
    frame = wide(data, (name,))
    usual = frame[name].where(frame["valid"]).groupby(frame["treatment"]).transform("median")
    frame["away"] = frame[name] / usual - 1
    higher = METRICS[name.partition(" ")[0]].better != "lower"
    shown = frame[["trial", "treatment", "block", "slot", name, "away", "status", "valid", "gates"]]
    return shown.sort_values("away", ascending=higher, kind="stable", ignore_index=True)


def column(frame: pd.DataFrame, name: str) -> str:
    """Return the column of the trials that a name means, a factor's by the factor's own name."""
    for known in (name, f"factor_{name}"):
        if known in frame.columns:
            return known
    names = [str(c).removeprefix("factor_") for c in frame.columns]
    raise unknown_name_error("column", name, names, "among the trials")
