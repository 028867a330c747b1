"""`loadbook report`: notebooks -> HTML, and the index page; with --all the smoke studies are run first.

`loadbook history`: what became of a study's effects from run to run, and whether the newest run is worse.

`loadbook claims`: what articles say, and how it fares here.

`loadbook gate`: does a run pass what its study declares unacceptable? For builds: exit code, JUnit XML, JSON.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli.arguments import studies_argument, study_argument
from loadbook.cli.progress import Ticker, echo
from loadbook.core.errors import DataError, StudyError, UsageError
from loadbook.core.text import one_line
from loadbook.core.units import format_duration
from loadbook.store.paths import Layout, project_layout
from loadbook.study.reader import find_study

if TYPE_CHECKING:
    from loadbook.analyses.claims.page import ClaimByRun
    from loadbook.analyses.history.compute import Alarm, EffectPoint, EffectSeries
    from loadbook.analyses.history.page import HistoryPage
    from loadbook.batch.site import SiteStudy
    from loadbook.report.build import BuiltReport
    from loadbook.report.ci import CiReport
    from loadbook.study.ci_policy import CiPolicy
    from loadbook.study.model import Study


@click.command()
@studies_argument
@click.option("--run", default="latest", show_default=True, help="Run id; needs exactly one STUDY.")
@click.option(
    "--against", metavar="RUN", help="Compare --run with this run of STUDY instead; previous: the one before."
)
@click.option("-p", "--parameter", "pairs", multiple=True, metavar="NAME=VALUE", help="Notebook parameter.")
@click.option("--all", "whole", is_flag=True, help="First run the smoke variant of every study that has none here.")
@click.option("--hosts", type=click.Path(path_type=Path), help="With --all: hosts file; without it: the lab.")
@click.option("--new", is_flag=True, help="With --all: run also what has been run.")
@click.option("--jobs", type=click.IntRange(min=1), help="With --all: reports made at a time; default: one per CPU.")
@click.option(
    "--timeout-s", type=click.IntRange(min=1), help="Seconds that one cell of a notebook may take; default: 600."
)
def report(
    studies: tuple[str, ...],
    run: str,
    against: str | None,
    pairs: tuple[str, ...],
    whole: bool,
    hosts: Path | None,
    new: bool,
    jobs: int | None,
    timeout_s: int | None,
) -> None:
    """Execute the notebooks of STUDY (default: every study that has a run) and export them to reports/.

    The last lines are the verdict sentences and the report's path. Exit code 3: a notebook failed, or with --all a
    study could not be run; the index says which, and the other pages are there. --all goes on where it was stopped.
    --against makes one page: how far each effect moved from one run to the other, and what else changed.
    """
    if whole and (studies or pairs or run != "latest" or against):
        raise UsageError("--all makes every report as it is: it takes no STUDY, --run, --against or --parameter")
    if not whole and (hosts or new or jobs):
        raise UsageError("--hosts, --new and --jobs go with --all")
    if whole:
        _whole_site(hosts, new, jobs, timeout_s)
        return
    from loadbook.batch.index import write_index

    layout = project_layout()
    chosen = studies or _recorded(layout)
    if (run != "latest" or against) and len(chosen) != 1:
        raise UsageError("--run and --against need exactly one STUDY")
    clock = _Clock()
    if against:
        built: list[BuiltReport | None] = [_compare(layout, chosen[0], run, against, pairs, clock, timeout_s)]
    else:
        built = [_build(layout, study, run, pairs, clock, timeout_s, alone=len(chosen) == 1) for study in chosen]
    written = write_index(layout.reports)
    clock.say("done")
    for one in filter(None, built):
        _print(one)
    echo(f"index: {written}")
    if any(one is None or one.failed for one in built):
        sys.exit(3)


def _build(
    layout: Layout, study: str, run: str, pairs: Sequence[str], clock: _Clock, timeout_s: int | None, *, alone: bool
) -> BuiltReport | None:
    """Make one report; of several, one whose data cannot be read is named, and the others go on."""
    from loadbook.report.build import build_report
    from loadbook.report.notebooks import TIMEOUT_S

    try:
        return build_report(layout, study, run, pairs, clock.say, timeout_s or TIMEOUT_S)
    except DataError as error:
        if alone:
            raise
        clock.say(f"{study}: no report: {error.message}")
        return None


def _compare(
    layout: Layout, study: str, run: str, against: str, pairs: Sequence[str], clock: _Clock, timeout_s: int | None
) -> BuiltReport:
    """Make the page of two runs."""
    from loadbook.analyses.compare_runs.page import build_comparison
    from loadbook.report.notebooks import TIMEOUT_S

    return build_comparison(layout, study, run, against, pairs, clock.say, timeout_s or TIMEOUT_S)


def _print(built: BuiltReport) -> None:
    for line in built.summary.get("sentences", []):
        echo(one_line(line))
    if "gate" in built.summary:
        echo(one_line(built.summary["gate"]["sentence"]))
    for failed in built.failed:
        echo(one_line(f"{built.study}: no report: {failed}"), err=True)
    for page in built.pages[:1]:
        echo(f"report: {page}")


def _whole_site(hosts: Path | None, new: bool, jobs: int | None, timeout_s: int | None) -> None:
    """Run what is missing, make every report, and say what each took."""
    from loadbook.batch.index import write_index, write_site_summary
    from loadbook.batch.site import build_all_reports, run_smoke_studies, site_record
    from loadbook.cli.progress import Reporter
    from loadbook.ingestion.workers import usable_cpus
    from loadbook.report.notebooks import TIMEOUT_S

    signal.signal(signal.SIGTERM, _interrupt)
    layout, clock, began, parts = project_layout(), _Clock(), time.time(), {}
    with Reporter(sys.stderr) as reporter:
        for part in run_smoke_studies(layout, hosts, new, reporter, clock.say):
            parts[part.study] = part
            clock.say(_ended(part))
    failed, runs_end = False, time.monotonic()
    for one in build_all_reports(layout, _recorded(layout), jobs or usable_cpus(), timeout_s or TIMEOUT_S):
        clock.say(
            f"{one.study}: " + (f"no report: {one.error}" if one.error else f"report, {format_duration(one.took_s)}")
        )
        failed |= one.error is not None
        if one.study in parts:
            parts[one.study].reported_s = one.took_s
        if one.built:
            _print(one.built)
    reported_s = time.monotonic() - runs_end
    said = site_record(list(parts.values()), began, reported_s)
    write_site_summary(layout.reports, said)
    echo(f"index: {write_index(layout.reports)}")
    for part in parts.values():
        echo(f"{part.study}\t{_took(part)}")
    echo(f"runs {format_duration(said['ran_s'])}, reports {format_duration(reported_s)}")
    if failed or any(part.lacks for part in parts.values()):
        sys.exit(3)


def _ended(part: SiteStudy) -> str:
    if part.lacks:
        return f"{part.study}: not run: {part.lacks}"
    return f"{part.study}: run {part.run}" + (" stands" if part.stood else f", {format_duration(part.ran_s)}")


def _took(part: SiteStudy) -> str:
    if part.lacks:
        return f"not run: {part.lacks}"
    return f"run {format_duration(part.ran_s)}\treport {format_duration(part.reported_s)}"


def _interrupt(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _recorded(layout: Layout) -> tuple[str, ...]:
    folder = layout.root / "data" / "raw"
    found = tuple(sorted({plan.parents[1].name for plan in folder.glob("*/*/plan.json")}))
    if not found:
        raise UsageError(f"no study has a run under {folder}", "loadbook run STUDY")
    return found


class _Clock:
    """Progress lines on stderr, with the seconds since the start."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    def say(self, text: str) -> None:
        echo(f"{time.monotonic() - self.start:5.1f} s  {text}", err=True)


@click.command()
@study_argument
@click.option("--metric", default="", help="Default: the study's own.")
@click.option("--rate", type=float, default=0.01, show_default=True, help="False alarms per run while nothing changes.")
@click.option("--by-name", is_flag=True, help="Hosts of one name are one host, whatever machine they are.")
@click.option("--alarm", "strict", is_flag=True, help="Exit code 1 if the newest run is worse than its past.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: every run, effect, change and alarm.")
def history(study: str, metric: str, rate: float, by_name: bool, strict: bool, as_json: bool) -> None:
    """Tell where each effect of STUDY stands, since when, and whether the newest run is worse than its past.

    Only runs on the same hosts that ask the same are held together. With --alarm the exit code is 1 if the newest run
    is worse, 4 if it is there and does not count; too few runs are no alarm. `loadbook report` draws the history.
    """
    from loadbook.analyses.history.page import history_page
    from loadbook.cli.data import study_name
    from loadbook.store.paths import project_layout

    name = study_name(project_layout(), study)
    page = history_page(name, metric, rate, by_name, Ticker(sys.stderr, "runs read"))
    echo(json.dumps(told(page), indent=1, ensure_ascii=False)) if as_json else _show(page)
    if strict:
        _end(page)


def _show(page: HistoryPage) -> None:
    from loadbook.analyses.history import text as words

    found = page.history
    echo(
        f"{found.study}: {words.run_count_text(len(found.runs))}, {found.included_runs} of which count; {found.metric}"
    )
    echo(words.headline(found))
    for course in found.series:
        echo(f"- {course.label} {words.series_sentence(course)}")
    for run, said in page.marks.items():
        echo(f"conditions of {run}: {'; '.join(said)}")
    for seen in found.runs:
        if seen.excluded_reason:
            echo(f"left out: {seen.run}: {seen.excluded_reason}")
    echo(words.supporting_text(found))


def _end(page: HistoryPage) -> None:
    """Say by the exit code what became of the newest run."""
    found = page.history
    if found.alarms:
        sys.exit(1)
    if not found.assessed and not any(point.run == found.runs[-1].run and point.is_included
                                    for course in found.treatments for point in course.points):  # fmt: skip
        why = next((course.no_alarm_reason for course in found.treatments), "no run has a comparison")
        raise DataError(f"run {found.runs[-1].run} cannot be held against its past: {why}", "loadbook history STUDY")


def told(page: HistoryPage) -> dict[str, Any]:
    """Return the history as JSON: effects and bounds are ratios minus 1, times epoch seconds."""
    from loadbook.analyses.history import text as words

    found, marks = page.history, page.marks
    return {
        "study": found.study,
        "metric": found.metric,
        "better": found.better,
        "margin": found.margin,
        "false_alarms_per_run": found.alarm_rate,
        "alarm": bool(found.alarms),
        "judged": [course.treatment for course in found.assessed],
        "headline": words.headline(found),
        "hosts": page.runs.hosts,
        "runs": [
            {"run": seen.run, "started": seen.started, "hosts": None if seen.hosts < 0 else seen.hosts,
             "left_out": seen.excluded_reason or None, "conditions_changed": list(marks.get(seen.run, ()))}
            for seen in found.runs
        ],
        "comparisons": [_course(course) for course in found.series],
    }  # fmt: skip


def _course(course: EffectSeries) -> dict[str, Any]:
    return {
        "treatment": course.treatment,
        "label": course.label,
        "kind": course.kind,
        "points": [_point(point) for point in course.points],
        "levels": [
            {"runs": [course.points[place].run for place in stretch.indices], "hosts": stretch.hosts,
             "effect": stretch.effect, "interval": list(stretch.interval), "begins": stretch.start_kind}
            for stretch in course.segments
        ],
        "alarm": _alarm_record(course.alarm) if course.alarm else None,
        "no_alarm_possible": course.no_alarm_reason or None,
    }  # fmt: skip


def _alarm_record(alarm: Alarm) -> dict[str, Any]:
    return {
        "effect": alarm.effect,
        "expected": alarm.expected,
        "limit": alarm.limit,
        "past": alarm.past_runs,
        "speaks": alarm.raised,
        "rate": alarm.rate,
        "margin": alarm.margin,
        "power": alarm.power,
    }


def _point(point: EffectPoint) -> dict[str, Any]:
    found = point.effect
    return {
        "run": point.run,
        "verdict": found.verdict,
        "effect": found.effect,
        "interval": list(found.interval) if found.interval else None,
        "level": found.level,
        "blocks": found.blocks,
        "does_not_count": point.excluded_reason or None,
    }


@click.command()
@studies_argument
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object per claim.")
def claims(studies: tuple[str, ...], as_json: bool) -> None:
    """Judge what the articles of STUDY (default: every study that has claims) say, by the newest run that can.

    Each claim stands with its verdict, the evidence, and whether the article's own numbers could have shown it.
    """
    from loadbook.analyses.claims.page import replay_claims

    layout = project_layout()
    names = studies or tuple(sorted(path.stem for path in layout.studies.glob("*.toml")))
    chosen = [study for study in (find_study(layout.studies, name) for name in names) if study.published]
    found = {study.name: replay_claims(layout, study, lambda text: echo(text, err=True)) for study in chosen}
    if as_json:
        rows = [_row(name, one) for name, those in found.items() for one in those]
        echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    for study in chosen:
        _claims_show(study, found[study.name])
    if not chosen:
        echo("No claims: none of these studies holds what an article says.", err=True)


def _claims_show(study: Study, found: list[ClaimByRun]) -> None:
    from loadbook.analyses.claims.compute import claim_title, claims_summary
    from loadbook.analyses.claims.text import OUTCOMES

    assert study.published is not None
    echo(f"{study.name}: {study.published.source}")
    for one in found:
        glyph, word = OUTCOMES[one.result.finding.outcome]
        run = f"  (run {one.run}{', claim written after it' if one.late else ''})" if one.run else ""
        echo(f"{glyph} {word:22}  {claim_title(one.result.claim)}{run}")
        echo(f"    {one.result.finding.evidence}")
        echo(
            f"    Could the article show it? {one.result.article.could_show.capitalize()}. "
            f"{one.result.article.sentence}"
        )
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


NONE = 'declare there what fails a build, [ci] with undecided = "fail" or "pass" (docs/ci.md)'
STDOUT = Path("-")


@click.command()
@study_argument
@click.option("--run", default="latest", show_default=True, help="Run id.")
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write JUnit XML, for the build's page.")
@click.option("--json", "summary", type=click.Path(path_type=Path), metavar="FILE", help="Write the JSON summary.")
def gate(study: str, run: str, junit: Path | None, summary: Path | None) -> None:
    """Judge a run of STUDY by the table [ci] that its study had when the run was planned.

    Prints what was asked, what was seen and what follows. A FILE of - is stdout, in place of that table. Exit codes:
    0 passed; 1 a verdict that the study declared unacceptable; 2 no [ci]; 4 what was asked cannot be judged: an
    invalid comparison, a check of the laboratory that failed.
    """
    from loadbook.report.ci import ci_document
    from loadbook.report.ci import junit_xml as as_junit

    if junit is not None and junit == summary:
        raise UsageError(f"--junit and --json cannot both go to {junit}")
    found = _found(project_layout(), study, run)
    if junit:
        _write(junit, as_junit([found]))
    if summary:
        _write(summary, _json(ci_document(found)))
    if STDOUT not in (junit, summary):
        _gate_print(found)
    sys.exit(found.result.exit_code)


def _found(here: Layout, study: str, run: str) -> CiReport:
    from loadbook.cli.data import study_name
    from loadbook.report.build import ensure_ingested
    from loadbook.report.ci import evaluate_ci
    from loadbook.store.tables import load_run

    name = study_name(here, study)
    run = here.resolve_run(name, run)
    ensure_ingested(here.run(name, run), lambda text: echo(text, err=True))
    data = load_run(here, name, run)
    now = _gate_now(here, study)
    found = evaluate_ci(data, now)
    if found is None:
        raise UsageError(f"study {name!r} has no [ci], neither in run {run} nor in its file", NONE)
    if found.late:
        echo(f"note: run {run} was planned without [ci]; that of the study file is taken", err=True)
    elif now is not None and now != found.policy:
        echo(
            f"note: [ci] of the study file is another one now: it counts from the next run on, not for {run}",
            err=True,
        )
    return found


def _gate_now(here: Layout, study: str) -> CiPolicy | None:
    """Return the gate in the study's file; None where there is no such file, as of a run that came from elsewhere."""
    from loadbook.study.reader import find_study

    try:
        return find_study(here.studies, study).ci
    except StudyError:
        raise
    except UsageError:
        return None


def _write(path: Path, content: bytes) -> None:
    from loadbook.store.atomic import write_atomic

    if path == STDOUT:
        echo(content.decode().rstrip("\n"))
        return
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no file", "name a file, or - for stdout")
    write_atomic(path, content)


def _json(document: object) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _gate_print(found: CiReport) -> None:
    for case in found.result.cases:
        name = "" if case.sentence.startswith(case.name) or case.kind in ("aa", "control") else f"{case.name}: "
        echo(f"{case.outcome:8} {one_line(name + case.full_sentence)}")
    echo(one_line(found.sentence))
