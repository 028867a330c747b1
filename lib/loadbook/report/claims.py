"""The section "What did the article say?": figure 13, and a row per claim with its check and its evidence."""

from __future__ import annotations

from collections.abc import Sequence

from loadbook.records.rundata import RunData
from loadbook.report.blocks import Block, clean, render
from loadbook.report.figures import published
from loadbook.report.show import drawn, markup
from loadbook.stats.claims.judge import Judged, replay
from loadbook.stats.claims.summary import numbers, title
from loadbook.stats.claims.words import OUTCOMES
from loadbook.stats.result import Analysis


def judge(data: RunData, analysis: Analysis, level: float) -> list[Judged]:
    """Judge the claims that stood in the study when the run was planned."""
    return replay(data.study, data, analysis, level)


def published_block(source: str, judged: Sequence[Judged], analysis: Analysis) -> Block:
    """Show the article's claims beside what was found here: picture where there is something to draw, rows, source."""
    answer, rows = published.answer(judged, analysis), [row_of(one) for one in judged]
    able = any(line.drawn for line in published.lines_of(judged))
    head = markup(drawn(published, judged, analysis)) if able else render("note.html.j2", text=answer)
    note = f"Source: {source}."
    said = "\n".join(f"{r['glyph']} {r['title']}: {r['word']}. {r['evidence']}" for r in rows)
    html = head + render("claims.html.j2", claims=rows) + render("note.html.j2", text=note)
    return Block(str(html), str(clean(f"{answer}\n{said}\n{note}")))


def row_of(one: Judged) -> dict[str, str]:
    """Return the texts of one claim: its sentence and numbers, how it fares and why, what the numbers are worth."""
    glyph, word = OUTCOMES[one.finding.outcome]
    return {
        "title": title(one.claim),
        "numbers": numbers(one.claim),
        "glyph": glyph,
        "word": word,
        "check": one.check,
        "evidence": one.finding.evidence,
        "could": one.article.could.capitalize(),
        "worth": one.article.sentence,
    }
