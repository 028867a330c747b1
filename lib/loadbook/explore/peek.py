"""What a run that is under way looks like so far: estimates without intervals or verdicts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from loadbook.core.units import format_percent
from loadbook.records.layout import Layout
from loadbook.records.rundata import RunData, load_run

if TYPE_CHECKING:
    import pandas as pd

WARNING = "Peeking decides nothing: verdicts come when the plan is done, or at a look that the study declared."


def estimates(layout: Layout, study: str, run: str) -> list[list[Any]]:
    """Make the tables of a run as far as it is; return label, change (ratio minus 1) and blocks of each treatment."""
    from loadbook.trials.ingest import ingest
    from loadbook.trials.studies import load_study

    name = load_study(layout, study).name
    run = layout.resolve_run(name, run)
    ingest(layout.run(name, run))
    data = load_run(layout, name, run)
    wide = data.values(data.study.metric)
    wide = wide[wide["valid"]].pivot(index="block", columns="treatment", values="value")
    return [one for name in data.plan["treatments"] if (one := _one(data, wide, name))]


def _one(data: RunData, wide: pd.DataFrame, name: str) -> list[Any] | None:
    base = data.study.repeated_treatment(name) or data.study.baseline_of(name)
    if name == base or not {name, base} <= set(wide.columns):
        return None
    ratios = (wide[name] / wide[base]).dropna()
    change = float(ratios.median()) - 1 if len(ratios) else math.nan
    return [data.study.label(name), change, len(ratios)] if math.isfinite(change) else None


def said(row: list[Any]) -> list[str]:
    """Return one estimate as cells."""
    label, change, blocks = row
    return [str(label), format_percent(change), str(blocks)]
