"""What figure 13 draws of each claim: its words and numbers, the article's ratio, ours, and how it fares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadbook.core.metrics import metric as metric_of
from loadbook.core.units import level, quantity
from loadbook.design.claim import ERROR_KINDS, Claim
from loadbook.report import palette
from loadbook.report.figures.text import drawable
from loadbook.stats.claim_words import OUTCOMES
from loadbook.stats.claims import Judged
from loadbook.stats.result import ErrorSummary, Row, Verdict
from loadbook.stats.shown import comparison_texts

_UNITS = {"requests_per_s": " req/s", "ok_per_s": " req/s"}


@dataclass(frozen=True)
class Line:
    """One claim as the figure shows it.

    `effect` is the article's ratio minus 1 where it is what the claim is about; `ours` is the comparison drawn below.
    `fate` and `seen` stand at the right: how the claim fares, and our numbers in the colour of their verdict.
    """

    title: str
    numbers: str
    effect: float | None
    at_ceiling: bool
    blind: bool
    ours: Row | None
    fate: str
    seen: str
    colour: str

    @property
    def drawn(self) -> bool:
        """Whether there is any ratio to draw."""
        return self.effect is not None or self.ours is not None


def lines_of(judged: Sequence[Judged]) -> list[Line]:
    """Return what is drawn of the claims, in their order."""
    return [_line(one) for one in judged]


def _line(one: Judged) -> Line:
    claim, article, finding = one.claim, one.article, one.finding
    about_ratio = claim.check not in (*ERROR_KINDS, "slope")
    ours = finding.verdict if finding.verdict and compared(finding.verdict) else None
    glyph, word = OUTCOMES[finding.outcome]
    return Line(
        drawable(title(claim), claim.treatment),
        numbers(claim),
        article.effect if about_ratio else None,
        article.at_ceiling,
        article.blind,
        _row(ours) if ours else None,
        f"{glyph} {word}",
        _seen(ours) if ours else finding.number,
        palette.VERDICTS[ours.kind].text if ours else palette.SOFT,
    )


def title(claim: Claim) -> str:
    """Return the sentence: in quotation marks where it is the article's own words, else our short form."""
    return f"“{claim.quote}”" if claim.quote else claim.claim


def numbers(claim: Claim) -> str:
    """Return "17,688 → 23,872 req/s; errors 62,488 → 7,754", as far as the article has numbers."""
    said = []
    if claim.value is not None and claim.against_value is not None:
        said.append(_values(claim, claim.against_value, claim.value))
    if claim.errors is not None or claim.against_errors is not None:
        before, after = ("–" if e is None else f"{e:,}" for e in (claim.against_errors, claim.errors))
        said.append(f"errors {before} → {after}")
    return "; ".join(said) or "no numbers"


def _values(claim: Claim, before: float, after: float) -> str:
    metric = metric_of(claim.metric)
    if claim.metric in _UNITS:
        return f"{level(before)} → {level(after)}{_UNITS[claim.metric]}"
    name = claim.metric.replace("_", " ") + (f" {claim.statistic}" if claim.statistic else "")
    return f"{name} {quantity(before, metric.unit)} → {quantity(after, metric.unit)}"


def compared(verdict: Verdict) -> bool:
    """Tell whether a verdict has an effect to draw."""
    return verdict.kind != "invalid" and verdict.comparison.effect is not None


def _row(verdict: Verdict) -> Row:
    """Return a comparison as the row that intervals are drawn of."""
    name = verdict.comparison.treatment
    return Row(name, name, "treatment", None, None, 0, 0, verdict, ErrorSummary(name, 0, 0, 0, 0, {}))


def _seen(verdict: Verdict) -> str:
    """Return our verdict, change and interval: "▲ faster +6.0 % (+5.1 to +6.8)"."""
    texts, row = comparison_texts(verdict), _row(verdict)
    word = palette.word_of(row, metric_of(verdict.comparison.metric))
    return f"{palette.glyph_of(row)} {word} {texts.change} ({texts.interval_number})"
