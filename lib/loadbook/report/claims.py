"""The section "What did the article say?": figure 13, and a row per claim with its check and its evidence."""

from __future__ import annotations

from collections.abc import Sequence

from loadbook.records.rundata import RunData
from loadbook.report.blocks import Block, clean, render
from loadbook.report.figures import published
from loadbook.report.show import render_figure, figure_markup
from loadbook.stats.claims.judge import ClaimResult, check_claims
from loadbook.stats.claims.summary import article_numbers_text, claim_title
from loadbook.stats.claims.words import OUTCOMES
from loadbook.stats.result import Analysis


def assess_claims(data: RunData, analysis: Analysis, level: float) -> list[ClaimResult]:
    """Judge the claims that stood in the study when the run was planned."""
    return check_claims(data.study, data, analysis, level)


def claims_block(source: str, results: Sequence[ClaimResult], analysis: Analysis) -> Block:
    """Show the article's claims beside what was found here: picture where there is something to draw, rows, source."""
    answer, rows = published.answer(results, analysis), [claim_row(one) for one in results]
    able = any(line.drawn for line in published.lines_of(results))
    head = figure_markup(render_figure(published, results, analysis)) if able else render("note.html.j2", text=answer)
    note = f"Source: {source}."
    text = "\n".join(f"{r['glyph']} {r['title']}: {r['word']}. {r['evidence']}" for r in rows)
    html = head + render("claims.html.j2", claims=rows) + render("note.html.j2", text=note)
    return Block(str(html), str(clean(f"{answer}\n{text}\n{note}")))


def claim_row(one: ClaimResult) -> dict[str, str]:
    """Return the texts of one claim: its sentence and numbers, how it fares and why, what the numbers are worth."""
    glyph, word = OUTCOMES[one.finding.outcome]
    return {
        "title": claim_title(one.claim),
        "numbers": article_numbers_text(one.claim),
        "glyph": glyph,
        "word": word,
        "check": one.check,
        "evidence": one.finding.evidence,
        "could": one.article.could_show.capitalize(),
        "worth": one.article.sentence,
    }
