"""Why two arms must not be compared, whatever their numbers say (statistics.md 5.3, `invalid`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from loadbook.core.gates import inside, title_of
from loadbook.core.metrics import metric as metric_of
from loadbook.stats.compare import too_little
from loadbook.stats.result import Comparison, ErrorSummary

if TYPE_CHECKING:
    import pandas as pd

# columns of the trials table that must agree: words for readers, and the field of the workload that may vary on purpose
LOAD_COLUMNS = {
    "tool": ("tool", "tool"),
    "load_model": ("load model", "model"),
    "offered_per_s": ("offered rate", "rate_per_s"),
    "concurrency": ("number of connections", "connections"),
    "drivers": ("number of drivers", "drivers"),
}
BASELINE = "the baseline"
COUNTS_ERRORS = ("requests_per_s", "requests")
RATES = ("ok_per_s", "requests_per_s", "ok", "requests")
Answered = tuple[int | None, int | None]


def reason(
    trials: pd.DataFrame,
    comparison: Comparison,
    errors: ErrorSummary,
    varied: Collection[str] = (),
    against: str = BASELINE,
) -> str | None:
    """Return the first reason that forbids the comparison, or None; the order is that of statistics.md 5.3.

    Parameters
    ----------
    trials : trials table of the run; only rows with status ok and valid are compared.
    varied : fields of the workload in which the study says that the two arms differ.
    against : the name of what is compared with.
    """
    own = trials[trials["treatment"] == comparison.treatment]
    base = trials[trials["treatment"] == comparison.baseline]
    used_own, used_base = own[counts(own)], base[counts(base)]
    found = (
        _short_tail(comparison.statistic, used_own, used_base)
        or _too_little(comparison, own, base)
        or _order(used_own, used_base)
        or _ceiling(comparison.metric, used_own, used_base)
        or _unsteady(used_own, used_base)
        or _load(used_own, used_base, varied)
        or _answers(used_own, used_base, sized="expect_bytes" in varied)
        or _defined_by_tool(comparison.metric, used_own, used_base)
        or _errors(comparison.metric, errors)
    )
    return found.replace(BASELINE, against) if found else None


def counts(trials: pd.DataFrame) -> pd.Series:
    """Tell, per trial, whether it may enter a comparison."""
    return (trials["status"] == "ok") & trials["valid"].astype(bool)


def answers_differ(own: Iterable[Answered], base: Iterable[Answered]) -> str | None:
    """Say how two arms' usual answers (status, bytes) differ; None where they agree or are not known."""
    own_seen, base_seen = (Counter(a for a in answers if a[0] is not None) for answers in (own, base))
    if not own_seen or not base_seen:
        return None
    (status, size), (base_status, base_size) = own_seen.most_common(1)[0][0], base_seen.most_common(1)[0][0]
    if status != base_status:
        return f"it answers differently (status {status} where the baseline answers {base_status})"
    if size != base_size:
        return f"it answers differently ({size} bytes where the baseline sends {base_size})"
    return None


def _answers(own: pd.DataFrame, base: pd.DataFrame, sized: bool) -> str | None:
    """Say how the answers of two arms differ; in their size they may, where the study gives each a page of its own."""
    ours, theirs = ([(status, None if sized else size) for status, size in _answered(arm)] for arm in (own, base))
    return answers_differ(ours, theirs)


def _answered(trials: pd.DataFrame) -> list[Answered]:
    known = trials.reindex(columns=["response_status", "response_bytes"]).dropna()
    return [(int(status), int(size)) for status, size in known.itertuples(index=False)]


def _load(own: pd.DataFrame, base: pd.DataFrame, varied: Collection[str]) -> str | None:
    for column, (words, field) in LOAD_COLUMNS.items():
        pair = _differing(column, own, base)
        if pair and field not in varied:
            return f"it was measured under another {words} ({pair[0]} where the baseline has {pair[1]})"
    return None


def _defined_by_tool(metric: str, own: pd.DataFrame, base: pd.DataFrame) -> str | None:
    """Say so if two tools timed the arms: each has its own definition of every time that it prints (docs/tools.md)."""
    tools = _differing("tool", own, base)
    if tools is None or metric_of(metric).kind != "time":
        return None
    return f"{tools[0]} and {tools[1]} define {metric} each in its own way"


def _differing(column: str, own: pd.DataFrame, base: pd.DataFrame) -> tuple[object, object] | None:
    """Return what a column holds in either arm where that differs; None where it agrees or is not known."""
    if column not in own or not len(own) or not len(base):
        return None
    ours, theirs = own[column].iloc[0], base[column].iloc[0]
    return None if ours == theirs or (ours != ours and theirs != theirs) else (ours, theirs)


def _ceiling(metric: str, own: pd.DataFrame, base: pd.DataFrame) -> str | None:
    """Say so if both arms served an open load whole: their rates are equal because the generator's setting is."""
    if metric not in RATES or "at_ceiling" not in own or not len(own) or not len(base):
        return None
    if own["at_ceiling"].mean() <= 0.5 or base["at_ceiling"].mean() <= 0.5:
        return None
    return "both served all of the offered load, so the rate is the generator's setting; offer more"


def _too_little(comparison: Comparison, own: pd.DataFrame, base: pd.DataFrame) -> str | None:
    found = too_little(comparison.blocks, comparison.excluded)
    if found is None:
        return None
    why = _why_excluded(own) or _why_excluded(base) or _not_run(comparison, own, base)
    return f"{found} ({why})" if why else found


def _why_excluded(trials: pd.DataFrame) -> str | None:
    """Return the most frequent cause of trials that do not count: a gate, else how the trial ended."""
    left_out = trials[~counts(trials)]
    if left_out.empty:
        return None
    causes = Counter(
        ", ".join(inside(title_of(gate)) for gate in gates) if len(gates) else str(status).replace("_", " ")
        for gates, status in zip(left_out["gates"], left_out["status"], strict=True)
    )
    cause, number = causes.most_common(1)[0]
    return f"{number} of {len(trials)} trials excluded: {cause}"


def _not_run(comparison: Comparison, own: pd.DataFrame, base: pd.DataFrame) -> str | None:
    planned = comparison.blocks + comparison.excluded
    missing = planned - len({*own["block"], *base["block"]})
    return f"{missing} {'was' if missing == 1 else 'were'} not run" if missing > 0 else None


def _order(own: pd.DataFrame, base: pd.DataFrame) -> str | None:
    """Say so if one arm ran whole before the other: blocks that are real cannot give that order."""
    if min(len(own), len(base)) < 2:
        return None
    if own["slot"].max() < base["slot"].min() or base["slot"].max() < own["slot"].min():
        return "one arm ran whole before the other, so the order was not randomised in blocks"
    return None


def _short_tail(statistic: str, own: pd.DataFrame, base: pd.DataFrame) -> str | None:
    """Say so if a percentile is not measurable in most trials of an arm."""
    if "short_tail" not in own or not any(arm["short_tail"].mean() > 0.5 for arm in (own, base)):
        return None
    return f"{statistic} is not measurable: too few requests of a trial lie beyond it (gates.min_tail_requests)"


def _unsteady(own: pd.DataFrame, base: pd.DataFrame) -> str | None:
    """Say so if the rate of one arm still moved within its trials and that of the other did not."""
    pair = _differing("moving", own, base)
    if pair is None or any(moving != moving for moving in pair):  # not known
        return None
    return (
        f"its rate {'moved' if pair[0] else 'held still'} within trials, the baseline's did{' not' if pair[0] else ''}"
    )


def _errors(metric: str, errors: ErrorSummary) -> str | None:
    if metric in COUNTS_ERRORS and errors.kind in ("more", "fewer"):
        return f"{metric} counts error responses, and it has {errors.kind} of them; compare ok_per_s"
    return None
