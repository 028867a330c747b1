"""The page section "What did the article say?", and the check of a study's claims against all of its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loadbook.analyses.claims.checks import check_claims
from loadbook.analyses.claims.compute import OUTCOMES, ClaimResult, article_numbers_text, claim_title
from loadbook.analyses.claims.figure import ClaimsFigure
from loadbook.analyses.effects.page import EffectsPage
from loadbook.core.errors import LoadbookError
from loadbook.report.blocks import Block, empty_section, note
from loadbook.report.build import ensure_ingested
from loadbook.report.nodes import Break, Column, Group, HtmlOnly, Picture, Span, Strong, Table, TextOnly
from loadbook.stats.results import Analysis
from loadbook.store.paths import Layout
from loadbook.store.tables import RunData, load_run
from loadbook.study.model import Study

OnMessage = Callable[[str], None]


@dataclass(frozen=True)
class ClaimByRun:
    """One claim and the run that checked it (None: no run has its treatments); `late`: written after that run."""

    run: str | None
    result: ClaimResult
    late: bool = False


def replay_claims(layout: Layout, study: Study, on_message: OnMessage) -> list[ClaimByRun]:
    """Check every claim of a study file against the newest run that has the claim's treatments.

    `on_message` is called for each run that is skipped because it cannot be read, with the reason.
    """
    results = [ClaimByRun(None, result) for result in check_claims(study)]
    for age, data in enumerate(_runs_newest_first(layout, study.name, on_message)):
        declared = data.study.published.claims if data.study.published else ()
        for number, result in enumerate(check_claims(study, data)):
            if result.finding.outcome != "not-run" and results[number].run is None:
                results[number] = ClaimByRun(data.run, result, late=result.claim not in declared)
            elif age == 0:
                results[number] = ClaimByRun(None, result)
        if all(one.run for one in results):
            break
    return results


def _runs_newest_first(layout: Layout, study: str, on_message: OnMessage) -> Iterator[RunData]:
    for run in reversed(layout.runs(study)):
        try:
            ensure_ingested(layout.run(study, run), on_message)
            yield load_run(layout, study, run)
        except LoadbookError as error:
            on_message(f"{study}: run {run} is passed over: {error.message}")


def assess_claims(data: RunData, analysis: Analysis, level: float) -> list[ClaimResult]:
    """Check the claims that the study contained when the run was planned."""
    return check_claims(data.study, data, analysis, level)


def section(page: EffectsPage) -> Block:
    """Show the claims of the article beside the measured results, as a section of the effects page.

    The section has the figure if a claim has a ratio, a table with one row per claim (sentence, numbers, outcome,
    check, evidence here and in the article's own numbers), and the source.
    """
    published = page.data.study.published
    results = [
        result for part in page.strata.values() for result in assess_claims(part.data, part.analysis, page.level)
    ]
    if published is None or not results:
        return empty_section("Nothing published stands beside this study.")
    figure = ClaimsFigure(results, page.analysis)
    head = Group(HtmlOnly(Picture(figure)), TextOnly(note(figure.caption))) if figure.has_data else note(figure.caption)
    rows = [
        [
            Group(Strong(claim_title(one.claim)), Break(), Span(article_numbers_text(one.claim), css="soft")),
            Group(Span(" ".join(OUTCOMES[one.finding.outcome]), css="v"), Break(), Span(one.check, css="soft")),
            one.finding.evidence,
            Group(Strong(f"{one.article.could_show.capitalize()}."), f" {one.article.sentence}"),
        ]
        for one in results
    ]
    heads = ("The article says", "Verdict", "Evidence here", "Could its own numbers show it?")
    table = Table("Claims", [Column(text, wrap=True) for text in heads], rows, css="claims")
    return Block(head, table, note(f"Source: {published.source}."))
