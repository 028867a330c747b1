"""Every sentence about a comparison: report form (report.md section 4) and the command line's short form.

The report states, it does not advise; "no difference" and "no effect" stand only where an interval excludes more.
"""

from __future__ import annotations

from collections.abc import Sequence

from loadbook.core.units import NBSP, format_fixed, format_percent, format_duration
from loadbook.stats.result import Comparison, ErrorSummary, Forecast, Interval, AnalysisRow, Verdict
from loadbook.stats.wording.errors import errors_sentence
from loadbook.stats.wording.shown import comparison_texts, verdict_decimals
from loadbook.stats.wording.words import predicate, direction_word

NO_VERDICT = "No verdict: "
MAX_TIED_NAMES = 4  # of treatments that cannot be told apart


def verdict_sentence(verdict: Verdict, label: str, *, against: str | None = None, block_s: float | None = None) -> str:
    """Return the report's sentence; `block_s`, the seconds that one block takes, adds the time to a forecast."""
    return f"{label}{verdict_phrase(verdict, against=against, block_s=block_s)}"


def verdict_phrase(verdict: Verdict, *, against: str | None = None, block_s: float | None = None) -> str:
    """Return what follows the treatment's name in `verdict_sentence`, so that a report can set the name in bold.

    `against` names what it was compared with, None where that is the baseline that the whole report speaks of.
    """
    comparison, texts = verdict.comparison, comparison_texts(verdict)
    margin, blocks = margin_text(verdict.margin), comparison_evidence(comparison)
    against_text = f" against {against}" if against else ""
    if verdict.kind == "invalid":
        return f"{against_text}: not compared: {verdict.reason}."
    if verdict.one_sided_bounds:
        return (
            f"{_non_inferiority_phrase(verdict, against_text)}, {blocks}.{f' {forecast_sentence(verdict, block_s)}' if verdict.forecast else ''}"
        )
    if verdict.kind == "undecided":
        return f"{against_text}: undecided: {texts.interval}, {blocks}.{multiplicity_note(verdict)} {forecast_sentence(verdict, block_s)}"
    if verdict.kind == "equivalent":
        interval = f"{confidence_text(comparison.level, one_sided=True)} {_interval_noun(comparison)} {texts.interval90}"
        return f": no difference{f' from {against}' if against else ''} larger than {margin} ({interval}), {blocks}."
    than_text = f" than {against}" if against else ""
    effect_text = f" {predicate(comparison.metric, comparison.effect or 0.0)}{than_text} by {texts.size}"
    effect_text += f" ({confidence_text(comparison.level)} {_interval_noun(comparison)} {texts.bounds})"
    if verdict.kind == "small":
        return f"{effect_text}: real, but smaller than the {margin} that matters, {blocks}."
    return f"{effect_text}, {blocks}."


def _non_inferiority_phrase(verdict: Verdict, against_text: str) -> str:
    """Return the answer to the one-sided question: the bound that decides it, or the one that does not yet."""
    texts, margin = comparison_texts(verdict), margin_text(verdict.margin)
    confidence = f"(one-sided {confidence_text(verdict.comparison.level)})"
    if verdict.kind == "worse":
        return f" loses more than {margin}{against_text}: at best {texts.best} {confidence}"
    result = f"no loss beyond {margin}" if verdict.kind == "no-loss" else "undecided"
    return f"{against_text}: {result}: at worst {texts.worst} {confidence}"


def verdict_line(verdict: Verdict, against: str | None = None) -> str:
    """Return the command line's form (statistics.md 5.3), in which ".." joins bounds and % follows at once.

    `against` names what was compared with where that is not the baseline of the whole table.
    """
    comparison, margin = verdict.comparison, _without_nbsp(margin_text(verdict.margin))
    against_text = f" against {against}" if against else ""
    if verdict.kind == "invalid" or comparison.effect is None or comparison.ci95 is None:
        return f"invalid{against_text}: {_without_nbsp(verdict.reason or '')}"
    if verdict.one_sided_bounds:
        return _non_inferiority_line(verdict, margin, against_text)
    digits, than_text = verdict_decimals(verdict), f" than {against}" if against else ""
    size, direction = _without_nbsp(comparison_texts(verdict).size), direction_word(comparison.metric, comparison.effect) + than_text
    if verdict.kind == "better" or verdict.kind == "worse":
        interval = f"{_without_nbsp(confidence_text(comparison.level))} CI {_dotted_range(comparison.ci95, digits, signed=False)}"
        return f"{direction} by {size} ({interval}), {comparison_evidence(comparison)}"
    if verdict.kind == "small":
        bounds = _dotted_range(comparison.ci95, digits, signed=False)
        return f"{direction} by {size} ({bounds}): real, but smaller than the {margin} that matters"
    if verdict.kind == "equivalent":
        bounds = f"{_without_nbsp(confidence_text(comparison.level, one_sided=True))} CI {_dotted_range(comparison.ci90 or (0, 0), digits)}"
        other = f" from {against}" if against else ""
        return f"no difference{other} larger than {margin} (equivalent; {bounds}), {comparison_evidence(comparison)}"
    return f"undecided{against_text}: {_dotted_range(comparison.ci95, digits)}%; {_forecast_words(verdict)}"


def _non_inferiority_line(verdict: Verdict, margin: str, against_text: str) -> str:
    low, _ = verdict.comparison.ci90 or (0.0, 0.0)
    worst, best = (f"{'lower' if end == low else 'upper'} bound {_plain_percent(end, verdict)}%" for end in verdict.one_sided_bounds or ())
    comparison = verdict.comparison
    blocks = comparison_evidence(comparison)
    if verdict.kind == "no-loss":
        return f"no degradation beyond {margin}{against_text} ({worst}), {blocks}"
    if verdict.kind == "worse":
        return f"loses more than {margin}{against_text} ({best}), {blocks}"
    return f"undecided{against_text}: {worst}; {_forecast_words(verdict)}"


def row_phrase(row: AnalysisRow, compared_with: ErrorSummary | None = None) -> str:
    """Return what follows the name of a treatment: the verdict on errors first where it has one, then "given that".

    Parameters
    ----------
    compared_with : errors of what the treatment is compared with.
    """
    if row.verdict is None:
        return ""
    verdict_text = verdict_phrase(row.verdict, against=row.reference_label)
    if row.errors.kind in ("more", "fewer"):
        errors = errors_sentence(row.errors, compared_with, row.reference_label)
        given = f"it{verdict_text}" if row.verdict.kind in ("better", "worse", "small") else verdict_text.removeprefix(":").lstrip()
        return f": {errors} Given that, {given}"
    if not row.errors.trials_with_errors:
        return verdict_text
    errors = errors_sentence(row.errors)
    return f"{verdict_text} {errors[:1].upper()}{errors[1:]}"


def aa_sentence(row: AnalysisRow, baseline_label: str) -> str:
    """Return what the A/A arm showed: passed, failed or not checked; its p is the evidence."""
    texts = comparison_texts(row.verdict) if row.verdict else None
    if row.verdict is None or row.passed is None or texts is None:
        return f"{row.label}: not checked, {_not_checked_reason(row)}."
    observed = f"{texts.change} ({texts.interval}, p {texts.p})"
    if row.passed:
        return f"{row.label}: passed. Same against same ({baseline_label} under a second name) gives {observed}."
    return f"{row.label}: failed. Same against same ({baseline_label} under a second name) gives {observed}."


def control_sentence(row: AnalysisRow) -> str:
    """Return whether the known effect was found with the expected sign."""
    texts = comparison_texts(row.verdict) if row.verdict else None
    if row.verdict is None or row.passed is None or texts is None:
        return f"{row.label}: not checked, {_not_checked_reason(row)}."
    known = f", {format_percent(row.expected_effect)} is known" if row.expected_effect is not None else ""
    result = "passed. The known effect was found" if row.passed else "failed. The known effect was not found"
    return f"{row.label}: {result}: {texts.change} ({texts.interval}){known}."


def aa_failure_sentence(row: AnalysisRow) -> str:
    """Return the sentence that voids every verdict, from an A/A arm that differs."""
    texts = comparison_texts(row.verdict) if row.verdict else None
    observed = f"{texts.change} ({texts.interval}, p {texts.p})" if texts else "a difference"
    return (
        f"{NO_VERDICT}the laboratory contradicts itself. {row.label}, the baseline under a second name, shows {observed}."
    )


def best_sentence(labels: list[str], best: str | None, ties_lead: bool = False) -> str | None:
    """Return the sentence on the best treatment, or on the labels (leader first) of which any may be."""
    if best is not None:
        return f"{best} is ahead of every other treatment; its own gain is likely a little overstated."
    if len(labels) < 2:
        return None
    listed = labels if len(labels) <= MAX_TIED_NAMES else [*labels[: MAX_TIED_NAMES - 1], f"{len(labels) - MAX_TIED_NAMES + 1} others"]
    sentence = f"{alternatives_text(listed, capital=True)} may be best"
    return f"{sentence}; all are ahead of the rest." if ties_lead else f"{sentence}."


def alternatives_text(labels: Sequence[str], *, capital: bool = False) -> str:
    """Return the labels of which one is meant: two of them may well differ, only the first place is open."""
    *others, last = labels
    text = f"either {others[0]} or {last}" if len(others) == 1 else f"any of {', '.join(others)} and {last}"
    return text[0].upper() + text[1:] if capital else text


def evidence_text(blocks: int, look: tuple[int, int] | None = None, added: int = 0) -> str:
    """Return on how many blocks a verdict stands, at which planned look, and what makes it exploratory."""
    if added:
        return f"{_count_text(blocks, 'block')} (exploratory: {added_blocks_text(added)})"
    return f"look {look[0]} of {look[1]} ({_count_text(blocks, 'block')})" if look else _count_text(blocks, "block")


def forecast_sentence(verdict: Verdict, block_s: float | None = None) -> str:
    """Return how many more blocks would decide an undecided comparison, and how long they take (s per block)."""
    forecast = verdict.forecast
    if forecast is None or forecast.about is None:
        remedy = "widen the margin or quieten the host" if verdict.margin else "quieten the host"
        return f"Not reachable at this noise (over 60 blocks): {remedy}."
    takes = "takes" if forecast.about == 1 else "take"
    time = f"; {_count_text(forecast.about, 'block')} {takes} {format_duration(forecast.about * block_s)}" if block_s else ""
    return f"About {forecast.about} more {_block_noun(forecast.about)} would decide (up to {forecast.high}){time}."


def margin_text(margin: float) -> str:
    """Return a margin with as many decimals as it has (at most two): 2 %, 0.5 %."""
    digits = next(d for d in range(3) if d == 2 or abs(margin * 100 - round(margin * 100, d)) < 1e-9)
    return format_percent(margin, digits, signed=False)


def _forecast_words(verdict: Verdict) -> str:
    forecast: Forecast | None = verdict.forecast
    if forecast is None or forecast.about is None:
        return f"not reachable at this noise; reduce noise{' or widen the margin' if verdict.margin else ''}"
    blocks = _block_noun(forecast.about)
    return f"needs about {forecast.about} more {blocks} ({forecast.low}..{forecast.high})"


def multiplicity_note(verdict: Verdict, among: str = "comparisons") -> str:
    """Say why an interval that excludes 0 is called undecided, where it is."""
    low, high = verdict.comparison.ci95 or (0.0, 0.0)
    if low <= 0 <= high:
        return ""
    return f" That differs if looked at alone, but not among {verdict.comparison.family_size} {among}."


def _not_checked_reason(row: AnalysisRow) -> str:
    return (row.verdict.reason if row.verdict else None) or "it has no valid trials"


def added_blocks_text(blocks: int) -> str:
    """Return what makes a run exploratory."""
    return f"{_count_text(blocks, 'block')} {'was' if blocks == 1 else 'were'} added after looking"


def comparison_evidence(comparison: Comparison) -> str:
    """Return `evidence_text` of a comparison."""
    return evidence_text(comparison.blocks, comparison.interim_analysis, comparison.added_blocks)


def _interval_noun(comparison: Comparison) -> str:
    return "always-valid interval" if comparison.method == "always-valid-t" else "interval"


def confidence_text(level: float, *, one_sided: bool = False) -> str:
    """Return a level as 95 %, or that of the two-sided interval whose ends are one-sided bounds at this level."""
    return f"{(1 - 2 * (1 - level) if one_sided else level) * 100:.4g}{NBSP}%"


def _without_nbsp(text: str) -> str:
    return text.replace(f"{NBSP}%", "%").replace("−", "-")


def _plain_percent(effect: float, verdict: Verdict) -> str:
    return f"{round(effect * 100, verdict_decimals(verdict)) + 0.0:.{verdict_decimals(verdict)}f}"


def _dotted_range(interval: Interval, digits: int, *, signed: bool = True) -> str:
    bounds = interval if signed else sorted(abs(bound) for bound in interval)
    return "..".join(format_fixed(round(bound * 100, digits) + 0.0, digits) for bound in bounds)


def _count_text(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _block_noun(number: int) -> str:
    return "block" if number == 1 else "blocks"
