"""Changes so far of a run that is under way, without intervals or verdicts."""

from __future__ import annotations

import math
from typing import NamedTuple

from loadbook.execution.studies import load_study
from loadbook.ingestion.ingest import ingest
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run


class Estimate(NamedTuple):
    """Label of a treatment, its change against its baseline (ratio minus 1), and the number of blocks with both."""

    label: str
    change: float
    blocks: int


def running_estimates(layout: Layout, study: str, run: str) -> list[Estimate]:
    """Ingest the trials of a run so far, and return the estimates of all treatments that have a baseline.

    The change is the median over blocks of the ratio to the baseline; intervals and verdicts are calculated only when
    the plan is complete.
    """
    name = load_study(layout, study).name
    run = layout.resolve_run(name, run)
    ingest(layout.run(name, run))
    data = load_run(layout, name, run)
    values = data.values(data.study.metric)
    values = values[values["valid"]].pivot(index="block", columns="treatment", values="value")
    estimates = []
    for treatment in data.plan.treatments:
        base = data.study.repeated_treatment(treatment) or data.study.baseline_of(treatment)
        if treatment == base or not {treatment, base} <= set(values.columns):
            continue
        ratios = (values[treatment] / values[base]).dropna()
        change = float(ratios.median()) - 1 if len(ratios) else math.nan
        if math.isfinite(change):
            estimates.append(Estimate(data.study.label(treatment), change, len(ratios)))
    return estimates
