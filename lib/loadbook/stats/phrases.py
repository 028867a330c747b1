"""Verdicts in words: one verdict has parts, and a form (patterns by case) makes a sentence of them.

Pages, tables, headlines, figures and terminals have forms, not sentences of their own. The numbers are those of
`loadbook.stats.text`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from loadbook.core.units import MINUS, NBSP, format_fixed, pluralize
from loadbook.stats.error_text import errors_sentence
from loadbook.stats.results import AnalysisRow, ErrorSummary, Verdict, VerdictKind
from loadbook.stats.text import (
    comparison_evidence,
    comparison_texts,
    confidence_text,
    effect_phrase,
    forecast_text,
    margin_text,
    multiplicity_note,
    resolution_text,
    verdict_decimals,
)

# the kind of a verdict, or of a one-sided one: "loss" if it is worse than accepted, "loss-undecided" if that is open
Case = VerdictKind | Literal["loss", "loss-undecided"]
Form = Mapping[Case, str]

_DIFFERENCE = "{effect} ({confidence} {interval_noun} {bounds})"
CLAIMS: Form = {
    "better": _DIFFERENCE,
    "worse": _DIFFERENCE,
    "small": f"{_DIFFERENCE}: real, but smaller than the {{margin}} that matters",
    "equivalent": "no difference{from_reference} larger than {margin} ({confidence90} {interval_noun} {interval90})",
    "undecided": "undecided: {interval}",
    "loss": "loses more than {margin}{against}: {change}, at best {best} (one-sided {confidence})",
    "no-loss": "no loss beyond {margin}: {change}, at worst {worst} (one-sided {confidence})",
    "loss-undecided": "undecided: {change}, at worst {worst} (one-sided {confidence})",
    "invalid": "not compared: {reason}",
}
_SHORT_DIFFERENCE = "{brief_effect} ({confidence} CI {dots}), {evidence}"
TERMINAL: Form = {
    "better": _SHORT_DIFFERENCE,
    "worse": _SHORT_DIFFERENCE,
    "small": "{brief_effect} ({dots}): real, but smaller than the {margin} that matters",
    "equivalent": "no difference{from_reference} larger than {margin} "
    "(equivalent; {confidence90} CI {dots90}), {evidence}",
    "undecided": "undecided{against}: {dots}%; {needed}",
    "loss": "loses more than {margin}{against} ({best_bound}), {evidence}",
    "no-loss": "no degradation beyond {margin}{against} ({worst_bound}), {evidence}",
    "loss-undecided": "undecided{against}: {worst_bound}; {needed}",
    "invalid": "invalid{against}: {reason}",
}
# parts of headlines: an effect with its interval, after a verb and alone
EFFECT = "{effect} ({bounds})"
DIFFERENCE = "{direction_word} by {size} ({bounds})"

# claims that follow a name without a colon; they name their reference themselves, as equivalence does
_PREDICATES = ("better", "worse", "small", "loss")
_ASCII = str.maketrans({NBSP: "", MINUS: "-"})


@dataclass(frozen=True)
class VerdictParts:
    """A verdict in parts, of which every sentence on it is made.

    Attributes
    ----------
    case : which pattern of a form applies.
    values : name -> text for patterns: those of `ComparisonTexts`, effect, margin, confidence, reason and others.
    reference : label of what it is compared with; "" for the baseline of the page.
    evidence : number of blocks; "" for a treatment that was not compared.
    caveat, forecast : sentences that follow, without full stops; "" if there are none.
    """

    case: Case
    values: Mapping[str, str]
    reference: str = ""
    evidence: str = ""
    caveat: str = ""
    forecast: str = ""

    def render(self, form: Form | str = CLAIMS, **more_values: str) -> str:
        """Return the verdict in a form, or in a single pattern, without a full stop."""
        pattern = form if isinstance(form, str) else form[self.case]
        return pattern.format_map({**self.values, "evidence": self.evidence, **more_values})

    def followed(self, claim: str) -> str:
        """Return a claim with the caveat and the forecast after it, without the last full stop."""
        return ". ".join(filter(None, (claim, self.caveat, self.forecast)))

    @property
    def after_name(self) -> str:
        """The whole verdict after a name: " is faster by 6.0 % (...), 12 blocks."."""
        return f"{self.item}."

    @property
    def brief(self) -> str:
        """The claim alone after a name, without evidence and what follows."""
        return replace(self, evidence="", caveat="", forecast="").after_name

    @property
    def item(self) -> str:
        """The whole verdict after a name as one part of a list, without its last full stop."""
        if self.case in _PREDICATES:
            return f" {self._sentences}"
        against = "" if self.case == "equivalent" else self.values["against"]
        return f"{against}: {self._sentences}"

    @property
    def clause(self) -> str:
        """The whole verdict within a sentence about a treatment that was named before."""
        if self.case in _PREDICATES:
            return f"it {self._sentences}."
        names_reference = self.reference and self.case != "equivalent"
        return f"against {self.reference}: {self._sentences}." if names_reference else f"{self._sentences}."

    @property
    def _sentences(self) -> str:
        return self.followed(", ".join(filter(None, (self.render(), self.evidence))))


def verdict_parts(
    verdict: Verdict, *, against: str | None = None, block_s: float | None = None, among: str = "comparisons"
) -> VerdictParts:
    """Return a verdict in parts.

    `against` is the label of the reference, None if that is the baseline of the whole page; `block_s` (seconds per
    block) adds the time needed to a forecast. `among` is the noun for the family of the verdict.
    """
    comparison, texts, reference = verdict.comparison, comparison_texts(verdict), against or ""
    effect, metric, than = comparison.effect or 0.0, comparison.metric, f" than {reference}" if reference else ""
    values = vars(texts) | {
        "against": f" against {reference}" if reference else "",
        "from_reference": f" from {reference}" if reference else "",
        "effect": effect_phrase(metric, effect, texts.size, than),
        "brief_effect": effect_phrase(metric, effect, texts.size, than, brief=True),
        "margin": margin_text(verdict.margin),
        "confidence": confidence_text(comparison.level),
        "confidence90": confidence_text(comparison.level, one_sided=True),
        "interval_noun": "always-valid interval" if comparison.method == "always-valid-t" else "interval",
        "reason": verdict.reason or "",
    }
    case = _case_of(verdict)
    if case == "invalid":
        return VerdictParts(case, values, reference)
    caveat = multiplicity_note(verdict, among) if case == "undecided" and not verdict.resolution else ""
    forecast = forecast_text(verdict, block_s) if verdict.forecast or verdict.resolution else ""
    return VerdictParts(case, values, reference, comparison_evidence(comparison), caveat, forecast)


def _case_of(verdict: Verdict) -> Case:
    if verdict.kind == "invalid" or verdict.comparison.effect is None or verdict.comparison.ci95 is None:
        return "invalid"
    one_sided: dict[VerdictKind, Case] = {"worse": "loss", "no-loss": "no-loss", "undecided": "loss-undecided"}
    return one_sided[verdict.kind] if verdict.one_sided_bounds else verdict.kind


def row_phrase(row: AnalysisRow, compared_with: ErrorSummary | None = None) -> str:
    """Return the text after a treatment's name: with more or fewer errors, first these, then "Given that, ...".

    `compared_with` are the errors of the reference. The text is "" for a row without a verdict.
    """
    if row.verdict is None:
        return ""
    parts = verdict_parts(row.verdict, against=row.reference_label)
    if row.errors.kind in ("more", "fewer"):
        errors = errors_sentence(row.errors, compared_with, row.reference_label)
        return f": {errors} Given that, {parts.clause}"
    if not row.errors.trials_with_errors:
        return parts.after_name
    errors = errors_sentence(row.errors)
    return f"{parts.after_name} {errors[:1].upper()}{errors[1:]}"


def terminal_verdict(verdict: Verdict, against: str | None = None) -> str:
    """Return a verdict as `loadbook compare` prints it: plain ASCII, bounds joined by "..", no space before %.

    `against` is the label of the reference if that is not the baseline of the whole table.
    """
    comparison, parts = verdict.comparison, verdict_parts(verdict, against=against)
    if parts.case == "invalid":
        return parts.render(TERMINAL).translate(_ASCII)
    bounds = comparison.ci95 or ()
    is_sized = parts.case in ("better", "worse", "small")
    values = {
        "dots": _dotted_range(verdict, sorted(map(abs, bounds)) if is_sized else bounds),
        "dots90": _dotted_range(verdict, comparison.ci90 or (0.0, 0.0)),
        "needed": _needed_text(verdict),
    }
    low, _ = comparison.ci90 or (0.0, 0.0)
    for name, end in zip(("worst_bound", "best_bound"), verdict.one_sided_bounds or (), strict=False):
        values[name] = f"{'lower' if end == low else 'upper'} bound {_dotted_range(verdict, (end,))}%"
    return parts.render(TERMINAL, **values).translate(_ASCII)


def _dotted_range(verdict: Verdict, bounds: Sequence[float]) -> str:
    digits = verdict_decimals(verdict)
    return "..".join(format_fixed(round(bound * 100, digits) + 0.0, digits) for bound in bounds)


def _needed_text(verdict: Verdict) -> str:
    if verdict.resolution:
        return resolution_text(verdict.resolution)
    forecast = verdict.forecast
    if forecast is None or forecast.about is None:
        return f"not reachable at this noise; reduce noise{' or widen the margin' if verdict.margin else ''}"
    return f"needs about {pluralize(forecast.about, 'more block')} ({forecast.low}..{forecast.high})"
