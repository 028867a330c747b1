"""Rules on shared trials: responses that come while the next treatment has its slice."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean, median

from loadbook.core.units import format_duration, format_percent
from loadbook.modes.plain.rules import PlainRules
from loadbook.store.trial_record import SLICE_SERIES
from loadbook.validity.base import Evidence, RuleHit, Severity


def slices_overrun(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge for how long requests of a slice are open in the next one, on average, as a share of a slice.

    One median latency after the end is no backlog: the last requests of a slice take as long as any.
    A backlog is served while another treatment has its turn: it is not in the latencies of the requests that would
    have waited for it, and it can delay the next treatment.
    """
    shared, limits = evidence.record.shared, evidence.thresholds
    if shared is None or shared.slice_s is None:
        return
    of_slices = {name: _values_of_slices(evidence, name) for name in ("overrun", "latency")}
    if not all(of_slices.values()):
        yield evidence.unchecked("slices_overrun", "the ends of its slices are not known")
        return
    usual_s = median(of_slices["latency"])
    mean_s = fmean(max(0.0, own_s - usual_s) for own_s in of_slices["overrun"])
    share = mean_s / shared.slice_s
    if share > limits.slices_overrun_doubt:
        level: Severity = "invalid" if share > limits.slices_overrun else "doubt"
        text = f"its last responses came {format_duration(mean_s)} later than usual after the end of a slice, on "
        text += f"average: {format_percent(share, 0, signed=False)} of {format_duration(shared.slice_s)}"
        yield evidence.hit("slices_overrun", level, text)


def _values_of_slices(evidence: Evidence, metric: str) -> list[float]:
    return [float(s["value"]) for s in evidence.samples if (s["series"], s["metric"]) == (SLICE_SERIES, metric)]


class SharedRules(PlainRules):
    """Validity rules on trials of shared blocks."""

    trial_rules = (slices_overrun,)


FACET = SharedRules()
