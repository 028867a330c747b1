"""Every sentence about a comparison: report form (report.md section 4) and the command line's short form.

The report states, it does not advise; "no difference" and "no effect" stand only where an interval excludes more.
"""

from __future__ import annotations

from collections.abc import Sequence

from loadbook.core.units import NBSP, fixed, percent, seconds
from loadbook.stats.result import Comparison, ErrorSummary, Forecast, Interval, Row, Verdict
from loadbook.stats.wording.errors import errors_sentence
from loadbook.stats.wording.shown import comparison_texts, decimals
from loadbook.stats.wording.words import predicate, word

NO_VERDICT = "No verdict: "
MAX_NAMES = 4  # of treatments that cannot be told apart


def sentence(verdict: Verdict, label: str, *, against: str | None = None, block_s: float | None = None) -> str:
    """Return the report's sentence; `block_s`, the seconds that one block takes, adds the time to a forecast."""
    return f"{label}{phrase(verdict, against=against, block_s=block_s)}"


def phrase(verdict: Verdict, *, against: str | None = None, block_s: float | None = None) -> str:
    """Return what follows the treatment's name in `sentence`, so that a report can set the name in bold.

    `against` names what it was compared with, None where that is the baseline that the whole report speaks of.
    """
    found, texts = verdict.comparison, comparison_texts(verdict)
    margin, blocks = margin_text(verdict.margin), stands_on(found)
    beside = f" against {against}" if against else ""
    if verdict.kind == "invalid":
        return f"{beside}: not compared: {verdict.reason}."
    if verdict.loss:
        return (
            f"{_of_loss(verdict, beside)}, {blocks}.{f' {more_blocks(verdict, block_s)}' if verdict.forecast else ''}"
        )
    if verdict.kind == "undecided":
        return f"{beside}: undecided: {texts.interval}, {blocks}.{only_alone(verdict)} {more_blocks(verdict, block_s)}"
    if verdict.kind == "equivalent":
        interval = f"{confidence(found.level, one_sided=True)} {_kind(found)} {texts.interval90}"
        return f": no difference{f' from {against}' if against else ''} larger than {margin} ({interval}), {blocks}."
    than = f" than {against}" if against else ""
    does = f" {predicate(found.metric, found.effect or 0.0)}{than} by {texts.size}"
    does += f" ({confidence(found.level)} {_kind(found)} {texts.bounds})"
    if verdict.kind == "small":
        return f"{does}: real, but smaller than the {margin} that matters, {blocks}."
    return f"{does}, {blocks}."


def _of_loss(verdict: Verdict, beside: str) -> str:
    """Return the answer to the one-sided question: the bound that decides it, or the one that does not yet."""
    texts, margin = comparison_texts(verdict), margin_text(verdict.margin)
    sure = f"(one-sided {confidence(verdict.comparison.level)})"
    if verdict.kind == "worse":
        return f" loses more than {margin}{beside}: at best {texts.best} {sure}"
    said = f"no loss beyond {margin}" if verdict.kind == "no-loss" else "undecided"
    return f"{beside}: {said}: at worst {texts.worst} {sure}"


def short(verdict: Verdict, against: str | None = None) -> str:
    """Return the command line's form (statistics.md 5.3), in which ".." joins bounds and % follows at once.

    `against` names what was compared with where that is not the baseline of the whole table.
    """
    found, margin = verdict.comparison, _tight(margin_text(verdict.margin))
    beside = f" against {against}" if against else ""
    if verdict.kind == "invalid" or found.effect is None or found.ci95 is None:
        return f"invalid{beside}: {_tight(verdict.reason or '')}"
    if verdict.loss:
        return _short_of_loss(verdict, margin, beside)
    digits, than = decimals(verdict), f" than {against}" if against else ""
    size, direction = _tight(comparison_texts(verdict).size), word(found.metric, found.effect) + than
    if verdict.kind == "better" or verdict.kind == "worse":
        interval = f"{_tight(confidence(found.level))} CI {_dots(found.ci95, digits, signed=False)}"
        return f"{direction} by {size} ({interval}), {stands_on(found)}"
    if verdict.kind == "small":
        bounds = _dots(found.ci95, digits, signed=False)
        return f"{direction} by {size} ({bounds}): real, but smaller than the {margin} that matters"
    if verdict.kind == "equivalent":
        bounds = f"{_tight(confidence(found.level, one_sided=True))} CI {_dots(found.ci90 or (0, 0), digits)}"
        other = f" from {against}" if against else ""
        return f"no difference{other} larger than {margin} (equivalent; {bounds}), {stands_on(found)}"
    return f"undecided{beside}: {_dots(found.ci95, digits)}%; {_needs(verdict)}"


def _short_of_loss(verdict: Verdict, margin: str, beside: str) -> str:
    low, _ = verdict.comparison.ci90 or (0.0, 0.0)
    worst, best = (f"{'lower' if end == low else 'upper'} bound {_plain(end, verdict)}%" for end in verdict.loss or ())
    found = verdict.comparison
    blocks = stands_on(found)
    if verdict.kind == "no-loss":
        return f"no degradation beyond {margin}{beside} ({worst}), {blocks}"
    if verdict.kind == "worse":
        return f"loses more than {margin}{beside} ({best}), {blocks}"
    return f"undecided{beside}: {worst}; {_needs(verdict)}"


def row_phrase(row: Row, compared_with: ErrorSummary | None = None) -> str:
    """Return what follows the name of a treatment: the verdict on errors first where it has one, then "given that".

    Parameters
    ----------
    compared_with : errors of what the treatment is compared with.
    """
    if row.verdict is None:
        return ""
    said = phrase(row.verdict, against=row.against)
    if row.errors.kind in ("more", "fewer"):
        errors = errors_sentence(row.errors, compared_with, row.against)
        given = f"it{said}" if row.verdict.kind in ("better", "worse", "small") else said.removeprefix(":").lstrip()
        return f": {errors} Given that, {given}"
    if not row.errors.trials_with_errors:
        return said
    errors = errors_sentence(row.errors)
    return f"{said} {errors[:1].upper()}{errors[1:]}"


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
        f"{NO_VERDICT}the laboratory contradicts itself. {row.label}, the baseline under a second name, shows {seen}."
    )


def best_sentence(labels: list[str], best: str | None, ties_lead: bool = False) -> str | None:
    """Return the sentence on the best treatment, or on the labels (leader first) of which any may be."""
    if best is not None:
        return f"{best} is ahead of every other treatment; its own gain is likely a little overstated."
    if len(labels) < 2:
        return None
    shown = labels if len(labels) <= MAX_NAMES else [*labels[: MAX_NAMES - 1], f"{len(labels) - MAX_NAMES + 1} others"]
    said = f"{any_of(shown, capital=True)} may be best"
    return f"{said}; all are ahead of the rest." if ties_lead else f"{said}."


def any_of(labels: Sequence[str], *, capital: bool = False) -> str:
    """Return the labels of which one is meant: two of them may well differ, only the first place is open."""
    *others, last = labels
    said = f"either {others[0]} or {last}" if len(others) == 1 else f"any of {', '.join(others)} and {last}"
    return said[0].upper() + said[1:] if capital else said


def evidence(blocks: int, look: tuple[int, int] | None = None, added: int = 0) -> str:
    """Return on how many blocks a verdict stands, at which planned look, and what makes it exploratory."""
    if added:
        return f"{_count(blocks, 'block')} (exploratory: {added_after(added)})"
    return f"look {look[0]} of {look[1]} ({_count(blocks, 'block')})" if look else _count(blocks, "block")


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


def only_alone(verdict: Verdict, among: str = "comparisons") -> str:
    """Say why an interval that excludes 0 is called undecided, where it is."""
    low, high = verdict.comparison.ci95 or (0.0, 0.0)
    if low <= 0 <= high:
        return ""
    return f" That differs if looked at alone, but not among {verdict.comparison.family} {among}."


def _why(row: Row) -> str:
    return (row.verdict.reason if row.verdict else None) or "it has no valid trials"


def added_after(blocks: int) -> str:
    """Return what makes a run exploratory."""
    return f"{_count(blocks, 'block')} {'was' if blocks == 1 else 'were'} added after looking"


def stands_on(found: Comparison) -> str:
    """Return `evidence` of a comparison."""
    return evidence(found.blocks, found.look, found.added)


def _kind(found: Comparison) -> str:
    return "always-valid interval" if found.method == "always-valid-t" else "interval"


def confidence(level: float, *, one_sided: bool = False) -> str:
    """Return a level as 95 %, or that of the two-sided interval whose ends are one-sided bounds at this level."""
    return f"{(1 - 2 * (1 - level) if one_sided else level) * 100:.4g}{NBSP}%"


def _tight(text: str) -> str:
    return text.replace(f"{NBSP}%", "%").replace("−", "-")


def _plain(effect: float, verdict: Verdict) -> str:
    return f"{round(effect * 100, decimals(verdict)) + 0.0:.{decimals(verdict)}f}"


def _dots(interval: Interval, digits: int, *, signed: bool = True) -> str:
    bounds = interval if signed else sorted(abs(bound) for bound in interval)
    return "..".join(fixed(round(bound * 100, digits) + 0.0, digits) for bound in bounds)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _blocks(number: int) -> str:
    return "block" if number == 1 else "blocks"
