"""What figure 13 draws of each claim: its words and numbers, the article's ratio, ours, and how it fares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadbook.analyses.claims.compute import ClaimResult, article_numbers_text, claim_title
from loadbook.analyses.claims.text import OUTCOMES
from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.figures.text import drawable
from loadbook.stats.results import AnalysisRow, ErrorSummary, Verdict
from loadbook.stats.text import comparison_texts
from loadbook.study.claims import ERROR_CLAIM_KINDS


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
    ours: AnalysisRow | None
    fate: str
    seen: str
    colour: str

    @property
    def drawn(self) -> bool:
        """Whether there is any ratio to draw."""
        return self.effect is not None or self.ours is not None


def lines_of(judged: Sequence[ClaimResult]) -> list[Line]:
    """Return what is drawn of the claims, in their order."""
    return [_line(one) for one in judged]


def _line(one: ClaimResult) -> Line:
    claim, article, finding = one.claim, one.article, one.finding
    about_ratio = claim.effective_kind not in (*ERROR_CLAIM_KINDS, "slope")
    ours = finding.verdict if finding.verdict and compared(finding.verdict) else None
    glyph, word = OUTCOMES[finding.outcome]
    return Line(
        drawable(claim_title(claim), claim.treatment),
        article_numbers_text(claim),
        article.effect if about_ratio else None,
        article.at_ceiling,
        article.both_at_ceiling,
        _row(ours) if ours else None,
        f"{glyph} {word}",
        _seen(ours) if ours else finding.short_evidence,
        palette.VERDICTS[ours.kind].text if ours else palette.SOFT,
    )


def compared(verdict: Verdict) -> bool:
    """Tell whether a verdict has an effect to draw."""
    return verdict.kind != "invalid" and verdict.comparison.effect is not None


def _row(verdict: Verdict) -> AnalysisRow:
    """Return a comparison as the row that intervals are drawn of."""
    name = verdict.comparison.treatment
    return AnalysisRow(name, name, "treatment", None, None, 0, 0, verdict, ErrorSummary(name, 0, 0, 0, 0, {}))


def _seen(verdict: Verdict) -> str:
    """Return our verdict, change and interval: "▲ faster +6.0 % (+5.1 to +6.8)"."""
    texts, row = comparison_texts(verdict), _row(verdict)
    word = palette.row_word(row, get_metric(verdict.comparison.metric))
    return f"{palette.row_glyph(row)} {word} {texts.change} ({texts.interval_number})"
