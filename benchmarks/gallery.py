"""Update of docs/gallery.md: for each of the five articles a picture, the verdict and the article's statement.

Usage: .venv/bin/python benchmarks/gallery.py [FOLDER [STUDY]...]

FOLDER is a project with data/raw: of each study on the page the newest complete run is used, else that of its smoke
variant, whatever its verdict. Studies without a run in FOLDER are unchanged; without FOLDER the page is only written
again from the stored results (docs/pictures/gallery.json).
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gallery_page
from loadbook.analyses.balancers.page import BackendsPage, BalancersPage
from loadbook.analyses.claims.checks import check_claims
from loadbook.analyses.claims.compute import OUTCOMES, ClaimResult, article_numbers_text, claim_title, claims_summary
from loadbook.analyses.claims.page import ClaimsFigure
from loadbook.analyses.effects.figure import EffectsFigure, NonInferiorityFigure
from loadbook.analyses.effects.page import EffectsPage
from loadbook.analyses.page_size.figure import PageSizeFigure
from loadbook.analyses.page_size.page import PageSizePage
from loadbook.core.errors import LoadbookError, UsageError
from loadbook.modes.plain.page import page_of
from loadbook.report import checks
from loadbook.report.build import ensure_ingested
from loadbook.report.figures.base import ReportFigure, house_style
from loadbook.report.page import scope_parts
from loadbook.store.atomic import write_atomic
from loadbook.store.ledger import is_run_complete
from loadbook.store.paths import Layout
from loadbook.store.tables import RunData, load_run
from loadbook.study.model import Study
from loadbook.study.reader import SMOKE_SUFFIX, find_study

STUDIES = Path(__file__).parents[1] / "studies"
PAGES = {page.notebook: page for page in (EffectsPage, BalancersPage, BackendsPage, PageSizePage)}
# the figure that answers each; where another is better than the first of the study's page
FIGURES = {
    "lb-vs-single": "non_inferiority",
    "lb-scaling": "scaling",
    "nginx-whole-file": "claims",
    "page-size-tps-link": "page_size",
}
LABS = {"loopback": "loopback lab", "netns": "namespace lab"}
DPI = 130


def newest(home: Layout, study: str) -> RunData | None:
    """Return the newest complete run of a study in a project, else of its smoke variant, with its tables made."""
    for name in (study, study + SMOKE_SUFFIX):
        for run in reversed(home.runs(name)):
            if is_run_complete(home.run(name, run)):
                ensure_ingested(home.run(name, run), print)
                return load_run(home, name, run)
    return None


def exhibit(data: RunData, figure: str, declared: Study) -> tuple[dict[str, Any], bytes]:
    """Return (results of a run to be stored, its picture as PNG); `declared` is the current study with the claims."""
    page = PAGES[data.study.notebooks[0]](data)
    judged = [one for one in check_claims(declared, data) if one.finding.outcome != "not-run"]
    drawn = _figure(page, figure, judged)
    began = datetime.fromtimestamp(data.run_record.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
    known = {
        "study": data.study.name,
        "run": data.run,
        "began": began,
        "question": data.study.question,
        "source": declared.published.source if declared.published else "",
        "verdict": page.summary()["verdict"]["sentence"],
        "answer": drawn.caption,
        "alt": drawn.alt_text,
        "picture": f"gallery-{data.study.name.removesuffix(SMOKE_SUFFIX)}.png",
        "claims": list(_claims(judged, data)),
        "tally": claims_summary([one.finding for one in judged], [one.article.could_show for one in judged])
        if judged
        else "",
        "checks": [f"{c.glyph} {c.title}: {c.text}" for c in checks.harness_checks(data, page.analysis, page.notes)],
        "scope": ", ".join(scope_parts(data, page.analysis.margin)),
        "execution": page_of(data.study).execution_text(data),
        "machine": machine(data),
        "cores": cores(data),
    }
    return known, png(drawn.draw())


def _figure(page: EffectsPage, figure: str, judged: list[ClaimResult]) -> ReportFigure:
    if figure == "claims":
        return ClaimsFigure(judged, page.analysis)
    if isinstance(page, BalancersPage) and figure == "scaling":
        return page.scaling_figure
    if isinstance(page, PageSizePage):
        return PageSizeFigure(page.result)
    return (NonInferiorityFigure if figure == "non_inferiority" else EffectsFigure)(page.analysis)


def _claims(judged: list[ClaimResult], data: RunData) -> Iterator[dict[str, Any]]:
    known = data.study.published.claims if data.study.published else ()
    for one in judged:
        glyph, word = OUTCOMES[one.finding.outcome]
        yield {
            "claim": claim_title(one.claim), "numbers": article_numbers_text(one.claim), "glyph": glyph, "word": word,
            "evidence": one.finding.evidence, "could": one.article.could_show, "late": one.claim not in known,
        }  # fmt: skip


def cores(data: RunData) -> str:
    """Return the number of CPUs of the driver's machine as text, such as "2 virtual CPUs"."""
    facts = _facts(data)
    first, _, last = str(facts["cpus_online"]["value"]).partition("-")
    number = int(last or first) - int(first) + 1
    return f"{number} {'virtual ' if facts['virtual']['value'] == 'yes' else ''}CPU{'s' if number > 1 else ''}"


def machine(data: RunData) -> str:
    """Return a description of the driver's machine and of the kind of lab."""
    lab = LABS.get(data.run_record.lab_kind)
    return f"{cores(data)} ({_facts(data)['cpu_model']['value']})" + (f" in the {lab}" if lab else "")


def _facts(data: RunData) -> dict[str, Any]:
    alias = next(name for name, host in data.run_record.hosts.items() if data.study.workload.role in host.roles)
    return data.facts[f"{alias}-before"]


def png(figure: Any) -> bytes:
    """Return a figure as PNG with twice the resolution of a page and a reduced palette."""
    from PIL import Image

    out, small = io.BytesIO(), io.BytesIO()
    with house_style():
        figure.savefig(out, format="png", dpi=DPI, metadata={"Software": None})
    Image.open(out).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def main(folder: str = "", *only: str) -> None:
    """Store the results of the runs in a folder, and write the page."""
    kept = gallery_page.load()
    shown = [study for studies in gallery_page.ARTICLES.values() for study in studies]
    if unknown := set(only) - set(shown):
        raise UsageError(f"the gallery does not show {', '.join(unknown)}", f"it shows {', '.join(shown)}")
    for study in (only or shown) if folder else ():
        data = newest(Layout(Path(folder).resolve()), study)
        if data is None:
            print(f"{study}: no complete run in {folder}, nor of {study}{SMOKE_SUFFIX}", file=sys.stderr)
            continue
        kept[study], picture = exhibit(data, FIGURES.get(study, "effects"), find_study(STUDIES, data.study.name))
        write_atomic(gallery_page.PICTURES / kept[study]["picture"], picture)
        print(f"{study}: run {data.run} of {data.study.name}: {kept[study]['verdict']}")
    kept = {study: kept[study] for study in shown if study in kept}
    write_atomic(gallery_page.KEPT, (json.dumps(kept, indent=1, ensure_ascii=False) + "\n").encode())
    write_atomic(gallery_page.PAGE, gallery_page.written(kept).encode())


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except LoadbookError as error:
        sys.exit(f"{error.message}" + (f"\n  next: {error.hint}" if error.hint else ""))
