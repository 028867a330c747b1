"""What latency percentiles can say: under which load, on how many requests; and the picture of all requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from loadbook.core.units import joined
from loadbook.records.rundata import RunData
from loadbook.report.blocks import render
from loadbook.report.show import drawn, markup
from loadbook.stats.hygiene import tails

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup

    from loadbook.requests.merged import Curve
    from loadbook.stats.result import Analysis

CLOSED = (
    "At fixed concurrency (closed loop): while the service stalls, nothing is sent, so a stall counts once where many "
    "users would have met it. A claim about p99 needs a tool at a fixed rate (wrk2). Rate and p50 are one piece of "
    "evidence, not two: with a fixed number of connections, rate times mean latency is that number."
)
SUMMARY = "All requests together: a picture, not evidence"


def measurable(data: RunData, metric: str, statistic: str) -> pd.DataFrame:
    """Return `RunData.values` of a percentile without those that too few requests of their trial lie beyond."""
    values, requests = data.values(metric, statistic), data.values("requests")["value"]
    short = tails.too_few(metric, statistic, requests, data.study.gates.min_tail_requests)
    return values.assign(value=values["value"].mask(short))


def note(data: RunData, metric: str, shown: Sequence[str], left_out: Sequence[str]) -> str:
    """Return what a reader of the percentiles must know; `left_out` are those that no trial can measure."""
    counted = data.trials[data.trials["valid"]]
    said = [CLOSED] if "closed" in set(counted["load_model"]) else []
    if left_out:
        least = data.study.gates.min_tail_requests
        needs = joined([f"{p} needs {tails.needed(p, least):,} requests in a trial" for p in left_out])
        said.append(f"Not measurable: {needs}.")
    requests = data.values("requests")["value"].dropna()
    tail = tails.beyond(metric, shown[-1], requests) if shown else None
    if tail is not None and len(tail) and tail.median() < tails.GOOD:
        said.append(
            f"{shown[-1]} rests on about {tail.median():,.0f} requests beyond it in a trial; from {tails.GOOD} on it "
            "scatters little."
        )
    return " ".join(said)


def curves(data: RunData) -> dict[str, Curve]:
    """Return the distribution of each treatment whose counting trials kept their requests one by one."""
    counted = data.trials[data.trials["valid"]]
    kept = {name: [data.paths.requests / f"{trial}.parquet" for trial in own] for name, own in _by_treatment(counted)}
    there = {name: [path for path in paths if path.is_file()] for name, paths in kept.items()}
    if not any(there.values()):
        return {}
    from loadbook.requests.merged import curve  # imports pyarrow

    found = {name: curve(paths) for name, paths in there.items() if paths}
    return {name: one for name, one in found.items() if one is not None}


def _by_treatment(trials: pd.DataFrame) -> list[tuple[str, list[str]]]:
    return [(str(name), list(own["trial"])) for name, own in trials.groupby("treatment", sort=False)]


def picture(analysis: Analysis, found: Mapping[str, Curve]) -> Markup:
    """Return the distributions, one click away."""
    from loadbook.report.figures import distribution

    return render("details.html.j2", summary=SUMMARY, inside=markup(drawn(distribution, analysis, found)))
