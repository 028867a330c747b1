"""Every sentence about a comparison: report form (report.md section 4) and the command line's short form.

The report states, it does not advise; "no difference" and "no effect" stand only where an interval excludes more.
"""

from __future__ import annotations

from loadbook.core.units import NBSP, percent, seconds
from loadbook.stats.result import ErrorSummary, Forecast, Interval, Row, Verdict
from loadbook.stats.shown import comparison_texts, decimals
from loadbook.stats.words import predicate, word

MAX_NAMES = 4  # of treatments that cannot be told apart
CLASS_WORDS = {
    "errors_connect": ("failed connection", "failed connections"),
    "errors_timeout": ("time-out", "time-outs"),
    "errors_read": ("reset or failed receive", "resets or failed receives"),
    "errors_write": ("failed send", "failed sends"),
    "errors_status": ("error response", "error responses"),
    "errors_length": ("response of the wrong length", "responses of the wrong length"),
    "errors_driver": ("failure at the driver's own limits", "failures at the driver's own limits"),
    "errors_other": ("other failure", "other failures"),
}


def sentence(verdict: Verdict, label: str, *, block_s: float | None = None) -> str:
    """Return the report's sentence; `block_s`, the seconds that one block takes, adds the time to a forecast."""
    return f"{label}{phrase(verdict, block_s=block_s)}"


def phrase(verdict: Verdict, *, block_s: float | None = None) -> str:
    """Return what follows the treatment's name in `sentence`, so that a report can set the name in bold."""
    found, texts = verdict.comparison, comparison_texts(verdict)
    margin, blocks = margin_text(verdict.margin), _count(found.blocks, "block")
    if verdict.kind == "invalid":
        return f": not compared: {verdict.reason}."
    if verdict.kind == "undecided":
        return f": undecided: {texts.interval}, {blocks}.{_alone(verdict)} {more_blocks(verdict, block_s)}"
    if verdict.kind == "equivalent":
        interval = f"{_confidence(found.level, one_sided=True)} interval {texts.interval90}"
        return f": no difference larger than {margin} ({interval}), {blocks}."
    does = f" {predicate(found.metric, found.effect or 0.0)} by {texts.size}"
    does += f" ({_confidence(found.level)} interval {texts.bounds})"
    if verdict.kind == "small":
        return f"{does}: real, but smaller than the {margin} that matters, {blocks}."
    return f"{does}, {blocks}."


def short(verdict: Verdict) -> str:
    """Return the command line's form (statistics.md 5.3), in which ".." joins bounds and % follows at once."""
    found, margin = verdict.comparison, _tight(margin_text(verdict.margin))
    if verdict.kind == "invalid" or found.effect is None or found.ci95 is None:
        return f"invalid: {_tight(verdict.reason or '')}"
    digits = decimals(verdict)
    size, direction = _tight(comparison_texts(verdict).size), word(found.metric, found.effect)
    if verdict.kind == "better" or verdict.kind == "worse":
        interval = f"{_tight(_confidence(found.level))} CI {_dots(found.ci95, digits, signed=False)}"
        return f"{direction} by {size} ({interval}), {_count(found.blocks, 'block')}"
    if verdict.kind == "small":
        bounds = _dots(found.ci95, digits, signed=False)
        return f"{direction} by {size} ({bounds}): real, but smaller than the {margin} that matters"
    if verdict.kind == "equivalent":
        bounds = f"{_tight(_confidence(found.level, one_sided=True))} CI {_dots(found.ci90 or (0, 0), digits)}"
        return f"no difference larger than {margin} (equivalent; {bounds}), {_count(found.blocks, 'block')}"
    return f"undecided: {_dots(found.ci95, digits)}%; {_needs(verdict)}"


def errors_sentence(errors: ErrorSummary, baseline: ErrorSummary | None = None) -> str:
    """Return the sentence on one treatment's errors; the baseline's summary gives what they are compared with."""
    if not errors.trials:
        return "errors: not measured."
    trials = f"{errors.trials_with_errors} of {_count(errors.trials, 'trial')}"
    against = f" against {baseline.trials_with_errors} of {baseline.trials} of the baseline" if baseline else ""
    if not errors.trials_with_errors:
        clean = f"no errors in {errors.trials} of {_count(errors.trials, 'trial')}"
        bound = f"(up to {_whole(errors.upper_share or 0)} of trials could still have some)"
        fewer = (
            f", fewer than the baseline: 0{against.removesuffix(' of the baseline')}" if errors.kind == "fewer" else ""
        )
        return f"{clean}{fewer} {bound}."
    what = f"{trials} had errors ({_classes(errors)})"
    if errors.kind in ("more", "fewer"):
        return f"{errors.kind} errors: {what}{against}{_rate(errors)}."
    return f"{what}{against}{': undecided' if errors.kind == 'undecided' and baseline else ''}."


def aa_sentence(row: Row, baseline_label: str) -> str:
    """Return what the A/A arm showed: passed, failed or not checked; its p is the evidence."""
    texts = comparison_texts(row.verdict) if row.verdict else None
    if row.verdict is None or row.passed is None or texts is None:
        return f"{row.label}: not checked, {_why(row)}."
    seen = f"{texts.change} ({texts.interval}, p {texts.p})"
    if row.passed:
        return f"{row.label}: passed. Same against same ({baseline_label} under a second name) gives {seen}."
    return f"{row.label}: failed. Same against same ({baseline_label} under a second name) gives {seen}."


def control_sentence(row: Row) -> str:
    """Return whether the known effect was found with the expected sign."""
    texts = comparison_texts(row.verdict) if row.verdict else None
    if row.verdict is None or row.passed is None or texts is None:
        return f"{row.label}: not checked, {_why(row)}."
    known = f", {percent(row.expected_effect)} is known" if row.expected_effect is not None else ""
    result = "passed. The known effect was found" if row.passed else "failed. The known effect was not found"
    return f"{row.label}: {result}: {texts.change} ({texts.interval}){known}."


def laboratory_sentence(row: Row) -> str:
    """Return the sentence that voids every verdict, from an A/A arm that differs."""
    texts = comparison_texts(row.verdict) if row.verdict else None
    seen = f"{texts.change} ({texts.interval}, p {texts.p})" if texts else "a difference"
    return (
        f"No verdict: the laboratory contradicts itself. {row.label}, the baseline under a second name, shows {seen}."
    )


def best_sentence(labels: list[str], best: str | None, ties_lead: bool = False) -> str | None:
    """Return the sentence on the best treatment, or on the labels (leader first) that cannot be told apart."""
    if best is not None:
        return f"{best} is ahead of every other treatment; its own gain is likely a little overstated."
    if len(labels) < 2:
        return None
    shown = labels if len(labels) <= MAX_NAMES else [*labels[: MAX_NAMES - 1], f"{len(labels) - MAX_NAMES + 1} others"]
    names = f"{', '.join(shown[:-1])} and {shown[-1]} cannot be told apart"
    return f"{names}; all are ahead of the rest." if ties_lead else f"{names}."


def more_blocks(verdict: Verdict, block_s: float | None = None) -> str:
    """Return how many more blocks would decide an undecided comparison, and how long they take (s per block)."""
    forecast = verdict.forecast
    if forecast is None or forecast.about is None:
        remedy = "widen the margin or quieten the host" if verdict.margin else "quieten the host"
        return f"Not reachable at this noise (over 60 blocks): {remedy}."
    takes = "takes" if forecast.about == 1 else "take"
    time = f"; {_count(forecast.about, 'block')} {takes} {seconds(forecast.about * block_s)}" if block_s else ""
    return f"About {forecast.about} more {_blocks(forecast.about)} would decide (up to {forecast.high}){time}."


def margin_text(margin: float) -> str:
    """Return a margin with as many decimals as it has (at most two): 2 %, 0.5 %."""
    digits = next(d for d in range(3) if d == 2 or abs(margin * 100 - round(margin * 100, d)) < 1e-9)
    return percent(margin, digits, signed=False)


def _needs(verdict: Verdict) -> str:
    forecast: Forecast | None = verdict.forecast
    if forecast is None or forecast.about is None:
        return f"not reachable at this noise; reduce noise{' or widen the margin' if verdict.margin else ''}"
    blocks = _blocks(forecast.about)
    return f"needs about {forecast.about} more {blocks} ({forecast.low}..{forecast.high})"


def _alone(verdict: Verdict) -> str:
    """Say why an interval that excludes 0 is called undecided, where it is."""
    low, high = verdict.comparison.ci95 or (0.0, 0.0)
    if low <= 0 <= high:
        return ""
    return f" That differs if looked at alone, but not among {verdict.comparison.family} comparisons."


def _why(row: Row) -> str:
    return (row.verdict.reason if row.verdict else None) or "it has no valid trials"


def _classes(errors: ErrorSummary) -> str:
    if not errors.by_class:
        return f"{errors.errors:,} in all"
    named = sorted(errors.by_class.items(), key=lambda item: -item[1])
    return ", ".join(f"{number:,} {CLASS_WORDS[key][number != 1]}" for key, number in named)


def _rate(errors: ErrorSummary) -> str:
    if errors.rate_ratio is None or errors.rate_ci95 is None:
        return ""
    low, high = errors.rate_ci95
    return f", {errors.rate_ratio:.2g} times as many per request (95{NBSP}% interval {low:.2g} to {high:.2g})"


def _confidence(level: float, *, one_sided: bool = False) -> str:
    return f"{(1 - 2 * (1 - level) if one_sided else level) * 100:.4g}{NBSP}%"


def _whole(share: float) -> str:
    return percent(share, 0, signed=False)


def _tight(text: str) -> str:
    return text.replace(f"{NBSP}%", "%").replace("−", "-")


def _dots(interval: Interval, digits: int, *, signed: bool = True) -> str:
    bounds = interval if signed else sorted(abs(bound) for bound in interval)
    return "..".join(f"{round(bound * 100, digits) + 0.0:.{digits}f}" for bound in bounds)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _blocks(number: int) -> str:
    return "block" if number == 1 else "blocks"
