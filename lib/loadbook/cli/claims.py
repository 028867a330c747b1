"""`loadbook claims`: what articles say, and how it fares here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli.say import echo
from loadbook.design.study_file import find_study
from loadbook.records.layout import project_layout

if TYPE_CHECKING:
    from loadbook.design.study import Study
    from loadbook.report.claims_replayed import ClaimByRun


@click.command()
@click.argument("studies", nargs=-1, metavar="[STUDY]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object per claim.")
def claims(studies: tuple[str, ...], as_json: bool) -> None:
    """Judge what the articles of STUDY (default: every study that has claims) say, by the newest run that can.

    Each claim stands with its verdict, the evidence, and whether the article's own numbers could have shown it.
    """
    from loadbook.report.claims_replayed import replay_claims

    layout = project_layout()
    names = studies or tuple(sorted(path.stem for path in layout.studies.glob("*.toml")))
    chosen = [study for study in (find_study(layout.studies, name) for name in names) if study.published]
    found = {study.name: replay_claims(layout, study, lambda text: echo(text, err=True)) for study in chosen}
    if as_json:
        rows = [_row(name, one) for name, those in found.items() for one in those]
        echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    for study in chosen:
        _show(study, found[study.name])
    if not chosen:
        echo("No claims: none of these studies holds what an article says.", err=True)


def _show(study: Study, found: list[ClaimByRun]) -> None:
    from loadbook.stats.claims.summary import claims_summary, claim_title
    from loadbook.stats.claims.words import OUTCOMES

    assert study.published is not None
    echo(f"{study.name}: {study.published.source}")
    for one in found:
        glyph, word = OUTCOMES[one.result.finding.outcome]
        run = f"  (run {one.run}{', claim written after it' if one.late else ''})" if one.run else ""
        echo(f"{glyph} {word:22}  {claim_title(one.result.claim)}{run}")
        echo(f"    {one.result.finding.evidence}")
        echo(f"    Could the article show it? {one.result.article.could_show.capitalize()}. {one.result.article.sentence}")
    if found:
        echo(claims_summary([one.result.finding for one in found], [one.result.article.could_show for one in found]))
    echo()


def _row(study: str, one: ClaimByRun) -> dict[str, Any]:
    claim, finding, article = one.result.claim, one.result.finding, one.result.article
    return {
        "study": study,
        "run": one.run,
        "claim": claim.quote or claim.claim,
        "kind": claim.effective_kind,
        "check": one.result.check,
        "outcome": finding.outcome,
        "size_met": finding.size_met,
        "evidence": finding.evidence,
        "written_after_run": one.late,
        "article_could": article.could_show,
        "article_effect": article.effect,
        "article": article.sentence,
    }
