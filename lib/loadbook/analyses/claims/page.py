"""The claims of a study, each judged by the newest of its runs that has the treatments it is about.

The section "What did the article say?": the figure, and a row per claim with its check and its evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loadbook.analyses.claims.checks import check_claims
from loadbook.analyses.claims.compute import ClaimResult, article_numbers_text, claim_title
from loadbook.analyses.claims.figure import ClaimsFigure
from loadbook.analyses.claims.text import OUTCOMES
from loadbook.analyses.effects.page import EffectsPage
from loadbook.core.errors import LoadbookError
from loadbook.report.blocks import Block, clean, empty_section, figure_markup, render, render_figure
from loadbook.report.build import ensure_ingested
from loadbook.stats.results import Analysis
from loadbook.store.paths import Layout
from loadbook.store.tables import RunData, load_run
from loadbook.study.claims import Claim
from loadbook.study.model import Study

OnMessage = Callable[[str], None]


@dataclass(frozen=True)
class ClaimByRun:
    """One claim judged by one run (None: no run has its treatments); `late`: it was written after that run."""

    run: str | None
    result: ClaimResult
    late: bool = False


def replay_claims(layout: Layout, study: Study, on_message: OnMessage) -> list[ClaimByRun]:
    """Judge the claims of a study file, newest run first; a run that cannot be read is named and passed over."""
    found = [ClaimByRun(None, one) for one in check_claims(study)]
    for newest, data in enumerate(_runs_newest_first(layout, study.name, on_message)):
        for number, one in enumerate(check_claims(study, data)):
            if one.finding.outcome != "not-run" and found[number].run is None:
                found[number] = ClaimByRun(data.run, one, late=one.claim not in _declared_claims(data))
            elif not newest:
                found[number] = ClaimByRun(None, one)
        if all(one.run for one in found):
            break
    return found


def _declared_claims(data: RunData) -> tuple[Claim, ...]:
    return data.study.published.claims if data.study.published else ()


def _runs_newest_first(layout: Layout, study: str, on_message: OnMessage) -> Iterator[RunData]:
    for run in reversed(layout.runs(study)):
        try:
            ensure_ingested(layout.run(study, run), on_message)
            yield load_run(layout, study, run)
        except LoadbookError as error:
            on_message(f"{study}: run {run} is passed over: {error.message}")


def assess_claims(data: RunData, analysis: Analysis, level: float) -> list[ClaimResult]:
    """Check the claims that stood in the study when the run was planned."""
    return check_claims(data.study, data, analysis, level)


def section(page: EffectsPage) -> Block:
    """Show what the article said beside what was measured, as a section of the effects page."""
    published = page.data.study.published
    results = [
        result for part in page.strata.values() for result in assess_claims(part.data, part.analysis, page.level)
    ]
    if published is None or not results:
        return empty_section("Nothing published stands beside this study.")
    return claims_block(published.source, results, page.analysis)


def claims_block(source: str, results: Sequence[ClaimResult], analysis: Analysis) -> Block:
    """Show the article's claims beside what was found here: picture where there is something to draw, rows, source."""
    figure, rows = ClaimsFigure(results, analysis), [claim_row(one) for one in results]
    answer = figure.caption
    head = figure_markup(render_figure(figure)) if figure.has_data else render("note.html.j2", text=answer)
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
