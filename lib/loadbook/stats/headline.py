"""First line of a report, which answers the study's question, and sentences on other effects and harness checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loadbook.core.units import format_percent, pluralize
from loadbook.core.validity_rules import lower_first
from loadbook.stats.no_comparison import (
    excluded_headline,
    no_comparison_reason,
    refusal_headline,
    refusal_texts,
    unfinished_reason,
)
from loadbook.stats.phrases import EFFECT, Case, VerdictParts, verdict_parts
from loadbook.stats.results import VERDICT_ORDER, Analysis, AnalysisRow, StoppingState, VerdictKind
from loadbook.stats.text import (
    ABSENT,
    best_sentence,
    comparison_texts,
    evidence_text,
    forecast_text,
    margin_text,
    metric_noun,
    predicate,
    resolution_text,
)
from loadbook.stats.verdict import MAX_FORECAST_BLOCKS, aa_margin, blocks_for_half_width

TOLD: tuple[VerdictKind, ...] = ("better", "worse", "small", "no-loss", "equivalent")
MAX_LOSING = 2


def non_inferiority_headline(rows: Sequence[AnalysisRow], margin: float) -> str:
    """Return the first line of a non-inferiority study: how many treatments lose more than `margin` (ratio)."""
    losing, within, undecided = (_rows_of_kind(rows, kind) for kind in ("worse", "no-loss", "undecided"))
    accepted, all_of_them = margin_text(margin), f"of {len(rows)} treatments"
    if len(within) == len(rows):
        worst = min(rows, key=_worst_bound)
        bound = comparison_texts(worst.verdict).worst if worst.verdict else ""
        return f"No loss beyond {accepted} in any {all_of_them}: at worst {bound} ({worst.label})."
    if not losing and not within:
        return f"Undecided: no treatment is shown to keep its loss within {accepted}."
    parts = []
    if losing:
        parts.append(f"{len(losing)} {all_of_them} {'loses' if len(losing) == 1 else 'lose'} more than {accepted}")
    if within:
        parts.append(f"no loss beyond {accepted} in {len(within)}{'' if losing else f' {all_of_them}'}")
    left = len(rows) - len(losing) - len(within) - len(undecided)
    parts += [f"{number} {word}" for number, word in ((len(undecided), "undecided"), (left, "not compared")) if number]
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def losing_sentences(rows: Sequence[AnalysisRow]) -> str | None:
    """Return sentences on at most two treatments that lose more than the margin; None without any, or for one row."""
    losing = _rows_of_kind(rows, "worse")[:MAX_LOSING] if len(rows) > 1 else []
    return " ".join(f"{row.label}{_row_parts(row).after_name}" for row in losing) or None


def _worst_bound(row: AnalysisRow) -> float:
    """Return the end of the interval that is worst for the treatment, with a loss as a negative number."""
    worst, best = (row.verdict and row.verdict.one_sided_bounds) or (0.0, 0.0)
    return worst if worst <= best else -worst


EXPLORATORY_PREFIX = "Exploratory: "
MAX_LENGTH = 90
MAX_OTHERS = 2
MAX_SENTENCES = 2
# what follows the name of a treatment, the longest first: the claims of pages (whole, brief), or words of headlines
CLAIM_HEADLINES = ("{whole}", "{brief}")
HEADLINES: dict[Case, tuple[str, ...]] = {
    "small": ("{whole}", f" {EFFECT}: less than the {{margin}} that matters."),
    "undecided": (": undecided, {interval}, {evidence}.", ": undecided, {interval}."),
    "loss-undecided": (": undecided, at worst {worst} (one-sided), {evidence}.",),
}


def headline(analysis: Analysis, labels: Mapping[str, str] | None = None) -> str:
    """Return the first line of a report; `labels` maps names of treatments to other labels than the study's.

    It has fewer than 90 characters if possible; an effect is shown with its interval at any length.
    """
    return mark_exploratory(_headline_text(analysis, labels), analysis.stopping_state)


def mark_exploratory(text: str, state: StoppingState) -> str:
    """Return a first line, with "Exploratory: " before it if it has a verdict and blocks were added to the run."""
    needs_prefix = state.added_blocks and not text.startswith((EXPLORATORY_PREFIX, "No verdict"))
    return f"{EXPLORATORY_PREFIX}{text}" if needs_prefix else text


@dataclass(frozen=True)
class Neutral:
    """Why a run has no headline of its own, without full stops.

    `further`: sentences after it. `is_own_sentence`: without "No verdict" before it. `is_early`: "No verdict yet".
    """

    reason: str
    further: tuple[str, ...] = ()
    is_own_sentence: bool = False
    is_early: bool = False

    def text(self, about: str = "", run: str = "") -> str:
        """Return the headline; `about`: what has no verdict (" on any percentile"), `run`: of which run it is."""
        opening = "" if self.is_own_sentence else f"No verdict{about}{' yet' if self.is_early else ''}: "
        return f"{'. '.join([opening + self.reason, *self.further])}{run}."


def neutral_headline(analysis: Analysis, about: str = "", run: str = "") -> str:
    """Return "No verdict: ..." if the stopping rule, a harness check or a full driver forbids a headline; else "".

    If nothing could be compared because requests were answered with errors, or the run is not finished, the text is
    that reason. The same holds if every difference is below the resolution. Pages, figures, lists of runs and the
    command line show it in place of their own headline. `about` and `run`: see `Neutral.text`.
    """
    neutral = neutral_parts(analysis)
    return neutral.text(about, run) if neutral else ""


def neutral_parts(analysis: Analysis) -> Neutral | None:
    """Return why a run has no headline of its own; None if it has one."""
    if analysis.stopping_state.pending_reason and not analysis.is_void:
        return Neutral("this is no planned look", is_early=True)
    if not analysis.is_void and (texts := refusal_texts(analysis)):
        return Neutral(texts[0], tuple(texts[1:]), is_own_sentence=True)
    if not analysis.is_void and (reason := unfinished_reason(analysis)):
        return Neutral(reason)
    if check := analysis.demoting_check:
        if check in analysis.wide_arms:
            return Neutral(_below_resolution(analysis), tuple(_resolution_reasons(analysis)))
        return Neutral(_demoted_reason(check))
    if not analysis.allows_headline:
        return Neutral(saturation_text(analysis.driver_saturated_share or 0.0))
    rows = analysis.of_kind("treatment")
    is_limited = any(row.verdict and row.verdict.resolution for row in rows)
    if analysis.resolution and is_limited and not any(_verdict_kind(row) in TOLD for row in rows):
        return Neutral(_below_resolution(analysis))
    return None


def neutral_caption(analysis: Analysis) -> str:
    """Return `neutral_headline` (or "") for a figure or claim, with the observed difference if an A/A arm failed."""
    return " ".join(filter(None, (neutral_headline(analysis), void_reason(analysis))))


def void_reason(analysis: Analysis) -> str:
    """Return the difference that a failed A/A arm shows; "" if no such arm makes the run void."""
    return _aa_difference(analysis.demoting_check) if analysis.is_void and analysis.demoting_check else ""


def _headline_text(analysis: Analysis, labels: Mapping[str, str] | None) -> str:
    rows = analysis.of_kind("treatment")
    if analysis.is_void or analysis.stopping_state.pending_reason:
        return neutral_headline(analysis)
    if not rows and (sentence := aa_only_headline(analysis)):
        return sentence
    if text := refusal_headline(analysis, labels):
        return text
    if reason := unfinished_reason(analysis):
        return Neutral(reason).text()
    if not rows or len(_rows_of_kind(rows, "invalid")) == len(rows):
        return excluded_headline(analysis) or f"No verdict: no {analysis.noun} could be compared."
    if text := neutral_headline(analysis):
        return text
    if len(rows) == 1:
        return _first_fitting(_row_label(rows[0], labels), *_headline_variants(rows[0]))
    if analysis.hypothesis == "non-inferiority":
        return non_inferiority_headline(rows, analysis.margin)
    if analysis.best_is_reference and (sentence := _best_text(analysis, labels)):
        return sentence
    changed_rows = _rows_of_kind(rows, "better") or _rows_of_kind(rows, "worse")
    if not changed_rows:
        return no_change_sentence(analysis)
    if len(changed_rows) == 1:
        return _first_fitting(_row_label(changed_rows[0], labels), *_headline_variants(changed_rows[0]))
    best = next((row for row in changed_rows if row.treatment == analysis.best), None)
    if best is not None:
        ahead = replace(_row_parts(best), evidence=f"ahead of every other {analysis.noun}", caveat="", forecast="")
        return _first_fitting(_row_label(best, labels), ahead.after_name, *_headline_variants(best))
    return _counts_headline(analysis)


def aa_only_headline(analysis: Analysis) -> str | None:
    """Return the first line of a study that compares a treatment only with itself; None for other studies."""
    aa_rows = [row for row in analysis.of_kind("aa") if row.verdict]
    if analysis.of_kind("treatment") or not aa_rows or not aa_rows[0].verdict:
        return None
    row, texts = aa_rows[0], comparison_texts(aa_rows[0].verdict)
    if row.check_state in (None, "unchecked"):
        return f"Nothing was compared: {_not_checked_reason(row)}."
    observed = f"the baseline and its duplicate differ by {texts.change} ({texts.interval})"
    said = resolution_text(analysis.resolution) if analysis.resolution else "None is seen"
    return f"{said}: {observed}."


def no_change_sentence(analysis: Analysis) -> str:
    """Return the first line of a study in which no treatment is shown to be better or worse."""
    rows = analysis.of_kind("treatment")
    counts = _open_counts(rows)
    return open_claim_sentence(_no_change_claim(analysis, f"no {analysis.noun}"), *counts, of=len(rows))


def open_claim_sentence(claim: str, undecided: int, not_compared: int, of: int) -> str:
    """Return `claim` as a sentence with the numbers of open treatments; "Undecided: ..." if all `of` are open."""
    if undecided == of:
        return f"Undecided: {claim}."
    text = _open_claim(claim, undecided, not_compared)
    return f"{text[0].upper()}{text[1:]}."


def no_change_clause(analysis: Analysis) -> str:
    """Return the clause on the treatments that are neither better nor worse: no change is shown, how many undecided."""
    rows = analysis.of_kind("treatment")
    counts = _open_counts(rows)
    return _open_claim(_no_change_claim(analysis, f"no other {analysis.noun}"), *counts)


def _open_counts(rows: Sequence[AnalysisRow]) -> tuple[int, int]:
    return len(_rows_of_kind(rows, "undecided")), len(_rows_of_kind(rows, "invalid"))


def _open_claim(claim: str, undecided: int, not_compared: int) -> str:
    counts = ((undecided, "undecided"), (not_compared, "not compared"))
    return ", ".join([claim, *(f"{number} {word}" for number, word in counts if number)])


def _no_change_claim(analysis: Analysis, which: str) -> str:
    size = f" by {margin_text(analysis.margin)} or more" if analysis.margin else ""
    noun = metric_noun(analysis.metric)
    return f"{which} is shown to change the {noun}{size}{_adjacent_suffix(analysis, 'against')}"


def _adjacent_suffix(analysis: Analysis, preposition: str) -> str:
    return f" {preposition} the one before it" if analysis.contrasts == "adjacent" else ""


def supporting_text(analysis: Analysis) -> str:
    """Return at most two sentences below the headline: best arms, other effects, number of blocks still needed.

    The numbers of treatments per verdict are left out because the page lists them below.
    """
    rows = analysis.of_kind("treatment")
    if analysis.is_void:
        return void_reason(analysis)
    if analysis.demoting_check and len(_rows_of_kind(rows, "invalid")) < len(rows):
        check = analysis.demoting_check
        return "" if check in analysis.wide_arms else _demoted_support(check)  # that headline has its reason
    if not analysis.allows_headline:
        return "The numbers say how fast the load generator is, not the service. The verdicts may not hold."
    if analysis.resolution and neutral_headline(analysis):
        return resolution_reason(analysis)
    reason = no_comparison_reason(rows) or resolution_sentence(analysis) or _forecast_text(rows)
    if analysis.hypothesis == "non-inferiority":
        return " ".join(filter(None, (losing_sentences(rows), reason)))
    better, worse = _rows_of_kind(rows, "better"), _rows_of_kind(rows, "worse")
    if analysis.best_is_reference:
        has_nearest = bool(worse) and analysis.best is not None
        nearest = f"Nearest to it: {_named_effect(worse[-1])}." if has_nearest else None
        return " ".join(filter(None, (nearest, reason)))
    best = _best_text(analysis) if better else None
    others = _other_effects_sentence(analysis, better, worse)
    quiet = len(rows) - len(better) - len(worse) - len(_rows_of_kind(rows, "invalid"))
    rest = None
    if quiet and (better or worse):
        rest = open_claim_sentence(
            _no_change_claim(analysis, f"no other {analysis.noun}"), *_open_counts(rows), of=len(rows)
        )
    chosen = [part for part in (best, reason, others, rest) if part][:MAX_SENTENCES]
    return " ".join(part for part in (best, others, rest, reason) if part in chosen and part)


def resolution_sentence(analysis: Analysis) -> str | None:
    """Return the resolution of a run and its reason as sentences; None if no A/A arm is wider than the margin."""
    if analysis.resolution is None:
        return None
    return f"{resolution_text(analysis.resolution)}: {resolution_reason(analysis)}"


def resolution_reason(analysis: Analysis) -> str:
    """Return why a run cannot show small differences: an A/A arm, same against same, has a wide interval.

    The sentences name the widest arm with its interval, and estimate how many more blocks would make the interval
    narrower than the margin. The estimate is left out if every treatment has a verdict all the same. `analysis` must
    have at least one wide A/A arm (`analysis.wide_arms`).
    """
    return " ".join(f"{text}." for text in _resolution_reasons(analysis))


def _resolution_reasons(analysis: Analysis) -> list[str]:
    wide, margin = analysis.wide_arms[0], aa_margin(analysis.margin, analysis.metric)
    observed, treatments = f"{wide.label} gives {_interval_text(wide)}", analysis.of_kind("treatment")
    if analysis.limited and treatments and not _rows_of_kind(treatments, "undecided"):
        return [observed]
    more = blocks_for_half_width(wide, margin)
    if more is None:
        return [observed, f"More blocks would not help at this noise (over {MAX_FORECAST_BLOCKS}): quieten the hosts"]
    return [observed, f"About {pluralize(more, 'more block')} would narrow it to ±{margin_text(margin)}"]


def _below_resolution(analysis: Analysis) -> str:
    """Return the reason of a run that cannot tell differences as small as its own, with a single interval."""
    limit = lower_first(resolution_text(analysis.resolution or 0.0))
    rows = [row for row in analysis.of_kind("treatment") if _verdict_kind(row) != "invalid"]
    single = f"{rows[0].label} gives {_interval_text(rows[0])}, but " if len(rows) == 1 else ""
    return f"{single}{limit}"


def _other_effects_sentence(
    analysis: Analysis, better: Sequence[AnalysisRow], worse: Sequence[AnalysisRow]
) -> str | None:
    """Return the sentence on effects that the headline does not state, each with its interval; None if no others."""
    rows = [*better, *worse][1:] if len(better) == 1 or not better or analysis.best is not None else [*better, *worse]
    return f"{'; '.join(map(_named_effect, rows[:MAX_OTHERS]))}." if rows else None


def verdict_counts(analysis: Analysis) -> dict[VerdictKind, int]:
    """Return the number of treatments per kind of verdict, in display order, without kinds that do not occur."""
    rows = analysis.of_kind("treatment")
    return {kind: len(own) for kind in VERDICT_ORDER if (own := _rows_of_kind(rows, kind))}


def _counts_headline(analysis: Analysis) -> str:
    """Return a headline such as "3 of 6 treatments are faster, 1 is slower."."""
    rows = analysis.of_kind("treatment")
    parts: list[str] = []
    for kind in ("better", "worse"):
        if group := _rows_of_kind(rows, kind):
            verb = predicate(analysis.metric, _row_effect(group[0]), len(group))
            text = f"{len(group)} {verb}" if parts else f"{len(group)} of {len(rows)} {analysis.noun}s {verb}"
            parts.append(text if parts else text + _adjacent_suffix(analysis, "than"))
    return f"{', '.join(parts)}."


def _headline_variants(row: AnalysisRow) -> list[str]:
    """Return the verdict on a treatment as headlines after its name, the longest first."""
    if row.verdict is None or _verdict_kind(row) == "invalid":
        return [": not compared."]
    parts, comparison = _row_parts(row), row.verdict.comparison
    # added blocks are in the word before the headline
    evidence = evidence_text(comparison.blocks, comparison.interim_analysis, execution=comparison.execution)
    short, claims = replace(parts, evidence=evidence), {"whole": parts.after_name, "brief": parts.brief}
    return [short.render(pattern, **claims) for pattern in HEADLINES.get(parts.case, CLAIM_HEADLINES)]


def _row_parts(row: AnalysisRow) -> VerdictParts:
    assert row.verdict is not None
    return verdict_parts(row.verdict, against=row.reference_label)


def _named_effect(row: AnalysisRow) -> str:
    """Return an effect such as "gzip on is faster by 6.0 % (5.1 to 6.8 %)"."""
    return f"{row.label} {_row_parts(row).render(EFFECT)}"


def _forecast_text(rows: Sequence[AnalysisRow]) -> str | None:
    """Return how many blocks would decide an undecided treatment, or the range over all such; None if no forecast."""
    undecided = _rows_of_kind(rows, "undecided")
    verdicts = [row.verdict for row in undecided if row.verdict]
    if not verdicts:
        return None
    if len(verdicts) == 1:
        text = forecast_text(verdicts[0])
        return f"{text}." if len(rows) == 1 else f"{undecided[0].label}: {text[0].lower()}{text[1:]}."
    about = sorted(v.forecast.about for v in verdicts if v.forecast and v.forecast.about is not None)
    if not about:
        remedy = "widen the margin or quieten the host" if verdicts[0].margin else "quieten the host"
        return f"More blocks would not decide at this noise (over 60): {remedy}."
    low = "" if about[0] == about[-1] else f"{about[0]} to "
    which = "the" if len(about) == len(verdicts) else f"{len(about)} of the"
    return f"About {low}{pluralize(about[-1], 'more block')} would decide {which} {len(verdicts)} undecided."


def _first_fitting(label: str, *variants: str) -> str:
    """Join a label and the first variant that fits into 90 characters, or the last variant."""
    return label + next((variant for variant in variants if len(label) + len(variant) < MAX_LENGTH), variants[-1])


def _best_text(analysis: Analysis, labels: Mapping[str, str] | None = None) -> str | None:
    names = [_row_label(analysis.row(t), labels) for t in analysis.tied_with_best]
    best = _row_label(analysis.row(analysis.best), labels) if analysis.best else None
    return best_sentence(names, best, analysis.ties_beat_rest, analysis.noun)


def _rows_of_kind(rows: Sequence[AnalysisRow], kind: VerdictKind) -> list[AnalysisRow]:
    return [row for row in rows if _verdict_kind(row) == kind]


def _verdict_kind(row: AnalysisRow) -> VerdictKind:
    return row.verdict.kind if row.verdict else "invalid"


def _row_effect(row: AnalysisRow) -> float:
    return (row.verdict.comparison.effect if row.verdict else None) or 0.0


def _row_label(row: AnalysisRow, labels: Mapping[str, str] | None) -> str:
    return (labels or {}).get(row.treatment, row.label)


def aa_result(row: AnalysisRow, baseline_label: str) -> str:
    """Return the result of an A/A arm, to follow its label; `baseline_label` is that of the repeated treatment."""
    texts = comparison_texts(row.verdict) if row.verdict else None
    if texts is None or row.check_state in (None, "unchecked"):
        return f"not checked, {_not_checked_reason(row)}."
    observed = f"{texts.change} ({texts.interval}, p {texts.p})"
    same = f"Same against same ({baseline_label} under a second name) gives {observed}"
    if row.check_state == "inconclusive":
        return f"wider than the margin. {same}."
    return f"{row.check_state}. {same}."


def control_result(row: AnalysisRow) -> str:
    """Return the result of a positive control, to follow its label: whether its known effect was found."""
    texts = comparison_texts(row.verdict) if row.verdict else None
    if texts is None or row.check_state in (None, "unchecked"):
        return f"not checked, {_not_checked_reason(row)}."
    known = f", {format_percent(row.expected_effect)} is known" if row.expected_effect is not None else ""
    result = {
        "passed": "passed. The known effect was found",
        "failed": "failed. The known effect was not found",
        "inconclusive": "too noisy to tell. The known effect is neither found nor excluded",
    }[row.check_state or ""]
    return f"{result}: {texts.change} ({texts.interval}){known}."


def _not_checked_reason(row: AnalysisRow) -> str:
    return (row.verdict.reason if row.verdict else None) or "it has no valid trials"


def _demoted_reason(check: AnalysisRow) -> str:
    """Return the reason of a run in which the harness check `check` did not pass."""
    if check.check_state == "unchecked":
        return f"{'the A/A arm' if check.kind == 'aa' else 'the known effect'} could not be compared"
    if check.kind == "control":
        return (
            f"the known effect {'was not found' if check.check_state == 'failed' else 'is neither found nor excluded'}"
        )
    return "the A/A arm differs from the baseline"


def _demoted_support(check: AnalysisRow) -> str:
    """Return the sentences on a check that did not pass: its condition for a pass, and how far verdicts hold."""
    below = "The verdicts may not hold."
    if check.check_state == "unchecked":
        return f"Reason: {_not_checked_reason(check)}. {below}"
    if check.check_state == "failed":
        observed = _aa_difference(check) if check.kind == "aa" else "Other effects may be missed, too."
        return f"{observed} {below}"
    return f"The control gives {_interval_text(check)}. {below}"


def _aa_difference(row: AnalysisRow) -> str:
    texts = comparison_texts(row.verdict) if row.verdict else None
    observed = f"{texts.change} ({texts.interval}, p {texts.p})" if texts else "a difference"
    return f"{row.label}, the baseline under a second name, shows {observed}."


def _interval_text(row: AnalysisRow) -> str:
    return comparison_texts(row.verdict).interval if row.verdict else ABSENT


def saturation_text(share: float) -> str:
    """Return a clause on the share of trials (0 to 1) in which a driver was at its limit, without a full stop."""
    return f"a driver was at its limit in {format_percent(share, 0, signed=False)} of the trials"
