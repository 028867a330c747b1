"""The check of claims about resources: the small balancer's CPU is full, so much memory is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadbook.records.rundata import RunData
from loadbook.stats.claims import words
from loadbook.stats.claims.finding import ClaimFinding
from loadbook.stats.saturation import saturation_of_run

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.design.claim import Claim
    from loadbook.stats.claims.run import ClaimRun


def check_resource(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "its CPU is full" or "2 GB is enough": holds if what was used lies in the range in every trial.

    Contradicted if it lies outside in every trial, on the same side; of memory the highest use of all trials counts.
    """
    rows, label = _usage_rows(claim, run), run.label(claim.treatment)
    if rows is None or rows.empty or claim.used is None:
        return ClaimFinding("unchecked", words.not_monitored_sentence(claim, label))
    low, high = float(rows["least"].min()), float(rows["most"].max())
    if claim.resource == "memory":
        low = high = float(rows["peak"].max())
    sentence = words.usage_sentence(claim, label, low, high, int(rows["trials"].max()))
    number = words.usage_value_text(claim, float(rows["mean"].mean()) if claim.resource != "memory" else high)
    if claim.used[0] <= low and high <= claim.used[1]:
        return ClaimFinding("holds", sentence, short_evidence=number)
    outside = high < claim.used[0] or low > claim.used[1]
    return ClaimFinding("contradicted" if outside else "undecided", sentence, short_evidence=number)


def _usage_rows(claim: Claim, run: ClaimRun) -> pd.DataFrame | None:
    """Return what is known of the resource on the role's hosts; None of a run without traces."""
    if not isinstance(run.data, RunData):
        return None
    full = saturation_of_run(run.data)
    roles = full["role"].str.split("/").map(lambda host_roles: claim.role in host_roles)
    rows = full[roles.astype(bool) & (full["treatment"] == claim.treatment) & (full["resource"] == claim.resource)]
    return rows if claim.resource == "memory" else rows.dropna(subset=["mean"])
