"""What latency percentiles can say: under which load, on how many requests; and the picture of all requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from loadbook.core.units import join_words
from loadbook.records.rundata import RunData
from loadbook.report.blocks import render
from loadbook.report.show import render_figure, figure_markup
from loadbook.stats.hygiene import tails

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup

    from loadbook.requests.merged import ExceedanceCurve
    from loadbook.stats.result import Analysis

CLOSED_LOOP_NOTE = (
    "At fixed concurrency (closed loop): while the service stalls, nothing is sent, so a stall counts once where many "
    "users would have met it. A claim about p99 needs a tool at a fixed rate (wrk2). Rate and p50 are one piece of "
    "evidence, not two: with a fixed number of connections, rate times mean latency is that number."
)
DISTRIBUTION_TITLE = "All requests together: a picture, not evidence"


def measurable_values(data: RunData, metric: str, statistic: str) -> pd.DataFrame:
    """Return `RunData.values` of a percentile without those that too few requests of their trial lie beyond."""
    values, requests = data.values(metric, statistic), data.values("requests")["value"]
    short = tails.has_short_tail(metric, statistic, requests, data.study.gates.min_tail_requests)
    return values.assign(value=values["value"].mask(short))


def tail_note(data: RunData, metric: str, statistics: Sequence[str], left_out: Sequence[str]) -> str:
    """Return what a reader of the percentiles must know; `left_out` are those that no trial can measure."""
    counted = data.trials[data.trials["valid"]]
    sentences = [CLOSED_LOOP_NOTE] if "closed" in set(counted["load_model"]) else []
    if left_out:
        least = data.study.gates.min_tail_requests
        needs = join_words([f"{p} needs {tails.requests_needed(p, least):,} requests in a trial" for p in left_out])
        sentences.append(f"Not measurable: {needs}.")
    requests = data.values("requests")["value"].dropna()
    tail = tails.tail_requests(metric, statistics[-1], requests) if statistics else None
    if tail is not None and len(tail) and tail.median() < tails.GOOD_TAIL_REQUESTS:
        sentences.append(
            f"{statistics[-1]} rests on about {tail.median():,.0f} requests beyond it in a trial; from {tails.GOOD_TAIL_REQUESTS} on it "
            "scatters little."
        )
    return " ".join(sentences)


def treatment_curves(data: RunData) -> dict[str, ExceedanceCurve]:
    """Return the distribution of each treatment whose counting trials kept their requests one by one."""
    counted = data.trials[data.trials["valid"]]
    paths_by_treatment = {name: [data.paths.request_logs / f"{trial}.parquet" for trial in own] for name, own in _trials_by_treatment(counted)}
    existing = {name: [path for path in paths if path.is_file()] for name, paths in paths_by_treatment.items()}
    if not any(existing.values()):
        return {}
    from loadbook.requests.merged import exceedance_curve  # imports pyarrow

    found = {name: exceedance_curve(paths) for name, paths in existing.items() if paths}
    return {name: one for name, one in found.items() if one is not None}


def _trials_by_treatment(trials: pd.DataFrame) -> list[tuple[str, list[str]]]:
    return [(str(name), list(own["trial"])) for name, own in trials.groupby("treatment", sort=False)]


def distribution_details(analysis: Analysis, found: Mapping[str, ExceedanceCurve]) -> Markup:
    """Return the distributions, one click away."""
    from loadbook.report.figures import distribution

    return render("details.html.j2", summary=DISTRIBUTION_TITLE, inside=figure_markup(render_figure(distribution, analysis, found)))
