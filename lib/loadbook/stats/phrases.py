"""Verdicts in words: each is made once, in parts, which pages, tables, headlines and terminals join.

The numbers in them are those of `loadbook.stats.text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadbook.core.units import MINUS, NBSP, format_fixed, pluralize
from loadbook.stats.error_text import errors_sentence
from loadbook.stats.results import AnalysisRow, ErrorSummary, Verdict
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

_ASCII = str.maketrans({NBSP: "", MINUS: "-"})


@dataclass(frozen=True)
class Phrase:
    """A verdict on a treatment in parts, without the treatment's name.

    Attributes
    ----------
    claim : what is said with size, interval and margin: "is faster by 6.0 % (...)", "undecided: −1 to +2 %".
    is_predicate : whether the claim follows a name as it is; otherwise a colon comes between.
    against : reference of a claim that does not name it: "against X"; "" for the baseline of the page.
    evidence : number of blocks; "" for a treatment that was not compared.
    caveat, forecast : sentences that follow, without full stops; "" if there are none.
    """

    claim: str
    is_predicate: bool = False
    against: str = ""
    evidence: str = ""
    caveat: str = ""
    forecast: str = ""

    @property
    def after_name(self) -> str:
        """The whole phrase after a name: " is faster by 6.0 % (...), 12 blocks."."""
        return self._after_name(self._sentences)

    @property
    def brief(self) -> str:
        """The claim alone after a name, without evidence and what follows."""
        return self._after_name(f"{self.claim}.")

    @property
    def without_stop(self) -> str:
        """The whole phrase after a name without its last full stop, as one part of a list."""
        return self._after_name(self._unstopped)

    @property
    def clause(self) -> str:
        """The whole phrase within a sentence about a treatment that was named before."""
        if self.is_predicate:
            return f"it {self._sentences}"
        return f"{self.against}: {self._sentences}" if self.against else self._sentences

    def brief_with(self, addition: str) -> str:
        """Return the claim after a name, with an addition in place of the evidence."""
        return self._after_name(f"{self.claim}, {addition}.")

    @property
    def _unstopped(self) -> str:
        claim = ", ".join(filter(None, (self.claim, self.evidence)))
        return ". ".join(filter(None, (claim, self.caveat, self.forecast)))

    @property
    def _sentences(self) -> str:
        return f"{self._unstopped}."

    def _after_name(self, text: str) -> str:
        if self.is_predicate:
            return f" {text}"
        return f" {self.against}: {text}" if self.against else f": {text}"


def verdict_parts(verdict: Verdict, *, against: str | None = None, block_s: float | None = None) -> Phrase:
    """Return a verdict in parts.

    `against` is the label of the reference, None if that is the baseline of the whole page; `block_s` (seconds per
    block) adds the time needed to a forecast.
    """
    comparison, texts = verdict.comparison, comparison_texts(verdict)
    margin, evidence = margin_text(verdict.margin), comparison_evidence(comparison)
    against_text = f"against {against}" if against else ""
    if verdict.kind == "invalid":
        return Phrase(f"not compared: {verdict.reason}", against=against_text)
    forecast = forecast_text(verdict, block_s) if verdict.forecast or verdict.resolution else ""
    if verdict.one_sided_bounds:
        return _non_inferiority_parts(verdict, against_text, forecast)
    if verdict.kind == "undecided":
        caveat = "" if verdict.resolution else multiplicity_note(verdict)
        claim = f"undecided: {texts.interval}"
        return Phrase(claim, against=against_text, evidence=evidence, caveat=caveat, forecast=forecast)
    interval_noun = "always-valid interval" if comparison.method == "always-valid-t" else "interval"
    if verdict.kind == "equivalent":
        interval = f"{confidence_text(comparison.level, one_sided=True)} {interval_noun} {texts.interval90}"
        difference = f"no difference{f' from {against}' if against else ''} larger than {margin}"
        return Phrase(f"{difference} ({interval})", evidence=evidence)
    than_text = f" than {against}" if against else ""
    claim = effect_phrase(comparison.metric, comparison.effect or 0.0, texts.size, than_text)
    claim += f" ({confidence_text(comparison.level)} {interval_noun} {texts.bounds})"
    if verdict.kind == "small":
        claim += f": real, but smaller than the {margin} that matters"
    return Phrase(claim, is_predicate=True, evidence=evidence)


def _non_inferiority_parts(verdict: Verdict, against: str, forecast: str) -> Phrase:
    """Return a one-sided verdict with the bound that decides it, or that leaves it undecided."""
    texts, margin = comparison_texts(verdict), margin_text(verdict.margin)
    evidence, confidence = comparison_evidence(verdict.comparison), confidence_text(verdict.comparison.level)
    if verdict.kind == "worse":
        loss = f"loses more than {margin}{f' {against}' if against else ''}"
        claim = f"{loss}: {texts.change}, at best {texts.best} (one-sided {confidence})"
        return Phrase(claim, is_predicate=True, evidence=evidence, forecast=forecast)
    result = f"no loss beyond {margin}" if verdict.kind == "no-loss" else "undecided"
    claim = f"{result}: {texts.change}, at worst {texts.worst} (one-sided {confidence})"
    return Phrase(claim, against=against, evidence=evidence, forecast=forecast)


def verdict_phrase(verdict: Verdict, *, against: str | None = None, block_s: float | None = None) -> str:
    """Return a verdict as pages print it after the treatment's name; parameters as of `verdict_parts`."""
    return verdict_parts(verdict, against=against, block_s=block_s).after_name


def row_phrase(row: AnalysisRow, compared_with: ErrorSummary | None = None) -> str:
    """Return the text after a treatment's name: with more or fewer errors, first these, then "Given that, ...".

    `compared_with` are the errors of the reference.
    """
    if row.verdict is None:
        return ""
    phrase = verdict_parts(row.verdict, against=row.reference_label)
    if row.errors.kind in ("more", "fewer"):
        errors = errors_sentence(row.errors, compared_with, row.reference_label)
        return f": {errors} Given that, {phrase.clause}"
    if not row.errors.trials_with_errors:
        return phrase.after_name
    errors = errors_sentence(row.errors)
    return f"{phrase.after_name} {errors[:1].upper()}{errors[1:]}"


def ascii_verdict(verdict: Verdict, against: str | None = None) -> str:
    """Return a verdict as `loadbook compare` prints it: plain ASCII, bounds joined by "..", no space before %.

    `against` is the label of the reference if that is not the baseline of the whole table.
    """
    comparison, texts, margin = verdict.comparison, comparison_texts(verdict), margin_text(verdict.margin)
    against_text, evidence = f" against {against}" if against else "", comparison_evidence(comparison)
    if verdict.kind == "invalid" or comparison.effect is None or comparison.ci95 is None:
        text = f"invalid{against_text}: {verdict.reason or ''}"
    elif verdict.one_sided_bounds:
        text = _ascii_non_inferiority(verdict, margin, against_text)
    elif verdict.kind == "undecided":
        text = f"undecided{against_text}: {_dotted_range(verdict, comparison.ci95)}%; {_forecast_words(verdict)}"
    elif verdict.kind == "equivalent":
        interval = f"{confidence_text(comparison.level, one_sided=True)} CI {_dotted_range(verdict, comparison.ci90)}"
        difference = f"no difference{f' from {against}' if against else ''} larger than {margin}"
        text = f"{difference} (equivalent; {interval}), {evidence}"
    else:
        than_text, distances = f" than {against}" if against else "", sorted(map(abs, comparison.ci95))
        change = effect_phrase(comparison.metric, comparison.effect, texts.size, than_text, brief=True)
        if verdict.kind == "small":
            bounds = _dotted_range(verdict, distances)
            text = f"{change} ({bounds}): real, but smaller than the {margin} that matters"
        else:
            text = f"{change} ({confidence_text(comparison.level)} CI {_dotted_range(verdict, distances)}), {evidence}"
    return text.translate(_ASCII)


def _ascii_non_inferiority(verdict: Verdict, margin: str, against_text: str) -> str:
    low, _ = verdict.comparison.ci90 or (0.0, 0.0)
    worst, best = (
        f"{'lower' if end == low else 'upper'} bound {_dotted_range(verdict, (end,))}%"
        for end in verdict.one_sided_bounds or ()
    )
    blocks = comparison_evidence(verdict.comparison)
    if verdict.kind == "no-loss":
        return f"no degradation beyond {margin}{against_text} ({worst}), {blocks}"
    if verdict.kind == "worse":
        return f"loses more than {margin}{against_text} ({best}), {blocks}"
    return f"undecided{against_text}: {worst}; {_forecast_words(verdict)}"


def _dotted_range(verdict: Verdict, bounds: Sequence[float] | None) -> str:
    digits = verdict_decimals(verdict)
    return "..".join(format_fixed(round(bound * 100, digits) + 0.0, digits) for bound in bounds or (0.0, 0.0))


def _forecast_words(verdict: Verdict) -> str:
    if verdict.resolution:
        return resolution_text(verdict.resolution)
    forecast = verdict.forecast
    if forecast is None or forecast.about is None:
        return f"not reachable at this noise; reduce noise{' or widen the margin' if verdict.margin else ''}"
    return f"needs about {pluralize(forecast.about, 'more block')} ({forecast.low}..{forecast.high})"
