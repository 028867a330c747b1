"""Commands on the verdicts of runs: `report`, `history`, `claims` and `gate`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli.events import attached_option, check_events, event_lines, events_option
from loadbook.cli.terminal import (
    ProgressDisplay,
    echo,
    json_option,
    picture_columns,
    print_json,
    studies_argument,
    study_argument,
)
from loadbook.core import clock
from loadbook.core.errors import DataError, StudyError, UsageError
from loadbook.core.text import one_line
from loadbook.core.units import format_duration, pluralize
from loadbook.store.paths import Layout, project_layout
from loadbook.study.reader import find_study

if TYPE_CHECKING:
    from loadbook.analyses.claims.page import ClaimByRun
    from loadbook.analyses.history.compute import EffectSeries
    from loadbook.analyses.history.page import HistoryPage
    from loadbook.batch.site import SiteStudy
    from loadbook.report.build import BuiltReport
    from loadbook.report.ci import CiReport
    from loadbook.study.model import Study

NO_POLICY_HINT = 'declare there what fails a build, [ci] with undecided = "fail" or "pass" (docs/ci.md)'
STDOUT = Path("-")


@click.command()
@studies_argument
@click.option("--run", default="latest", show_default=True, help="Run id; needs exactly one STUDY.")
@click.option(
    "--against", metavar="RUN", help="Compare --run with this run of STUDY instead; previous: the one before."
)
@click.option("-p", "--parameter", "pairs", multiple=True, metavar="NAME=VALUE", help="Notebook parameter.")
@click.option(
    "--format", "file_format", type=click.Choice(["html", "md"]), default="html", show_default=True,
    help="md: write each page as Markdown, too, beside it.",
)  # fmt: skip
@click.option(
    "--to", type=click.Path(path_type=Path, dir_okay=False), metavar="PAGE.html",
    help="Write this page, and other pages and notebooks of one STUDY beside it, in place of those in reports/.",
)  # fmt: skip
@click.option("--home", default="All studies", help="With --to: text of the page's link to index.html beside it.")
@click.option("--all", "whole", is_flag=True, help="First run the smoke variant of every study that has none here.")
@click.option("--hosts", type=click.Path(path_type=Path), help="With --all: hosts file; without it: the lab.")
@click.option("--new", is_flag=True, help="With --all: run also what has been run.")
@click.option("--jobs", type=click.IntRange(min=1), help="With --all: reports made at a time; default: one per CPU.")
@click.option(
    "--timeout-s", type=click.IntRange(min=1), help="Seconds that one cell of a notebook may take; default: 600."
)
@events_option
@attached_option
@json_option("verdict, sentences, pages and next command of each report")
def report(
    studies: tuple[str, ...], run: str, against: str | None, pairs: tuple[str, ...], file_format: str, to: Path | None,
    home: str, whole: bool, hosts: Path | None, new: bool, jobs: int | None, timeout_s: int | None, events: bool,
    attached: bool, as_json: bool,
) -> None:  # fmt: skip
    """Execute the notebooks of STUDY (default: every study that has a run) and export them to reports/.

    The last lines are the verdict sentences and the report's path. Exit code 3: a notebook failed, or with --all a
    study could not be run; the index names it, and the other pages are there. --all goes on where it was stopped.
    --against makes one page: how far each effect moved from one run to the other, and what else changed.
    """
    if whole and (studies or pairs or run != "latest" or against or to or events):
        raise UsageError("--all makes every report as it is: it takes no STUDY and none of the other options")
    if not whole and (hosts or new or jobs):
        raise UsageError("--hosts, --new and --jobs go with --all")
    from loadbook.report.notebooks import TIMEOUT_S

    timeout_s = timeout_s or TIMEOUT_S
    check_events(events, attached, as_json)
    if whole:
        _report_site(hosts, new, jobs, timeout_s, as_json)
        return
    layout = project_layout()
    names = studies or _recorded_studies(layout)
    if (run != "latest" or against or to or events) and len(names) != 1:
        raise UsageError("--run, --against, --to and --events need exactly one STUDY")
    if to and (against or to.suffix != ".html"):
        raise UsageError(f"--to {to}: no page of one run", "--to PAGE.html, without --against")

    def build(study: str, on_message: Callable[[str], None]) -> BuiltReport:
        from loadbook.report.build import build_report, build_report_to

        if against:
            from loadbook.analyses.compare_runs.page import build_comparison  # imports scipy

            return build_comparison(layout, study, run, against, pairs, on_message, timeout_s)
        if to:
            return build_report_to(layout, study, run, pairs, to, home, on_message, timeout_s, file_format == "md")
        return build_report(layout, study, run, pairs, on_message, timeout_s, file_format == "md")

    if events:
        with event_lines(attached) as send:
            one = build(names[0], lambda text: send("note", message=text))
            files = {notebook: [path and str(path) for path in paths] for notebook, paths in one.files.items()}
            send("reported", study=one.study, run=one.run, summary=one.summary, files=files, failed=one.failed)
        sys.exit(3 if one.failed else 0)
    built: list[BuiltReport] = []
    records: list[dict[str, Any]] = []
    failed, display = False, ProgressDisplay(sys.stderr)
    for name in names:
        try:
            built.append(build(name, lambda text, name=name: display.step(f"{name}: {text}")))  # type: ignore[misc]
        except DataError as error:
            if len(names) == 1:
                raise
            failed = True  # continue with the reports of the other studies
            records.append({"study": name, "pages": [], "failed": [error.message], "next": error.hint})
            display.step(f"{name}: no report: {error.message}")
    if to is None:
        from loadbook.batch.index import write_index

        index = write_index(layout.reports)
    display.step("done")
    for one in built:
        _print_report(one)
    if to is None:
        echo(f"index: {index}")
    if as_json:
        where = {} if to else {"index": str(index)}
        print_json(where | {"reports": [*map(_report_record, built), *records]})
    if failed or any(one.failed for one in built):
        sys.exit(3)


def _print_report(built: BuiltReport) -> None:
    from loadbook.report.strips import KEY_LINE, strip_lines

    strips = strip_lines(built.summary, picture_columns())
    for line in built.summary.get("sentences", []):
        echo(one_line(line))
        if line in strips:
            echo(strips[line])
    if strips:
        echo(KEY_LINE)
    if "gate" in built.summary:
        echo(one_line(built.summary["gate"]["sentence"]))
    if built.summary.get("next"):
        echo(one_line(f"next: {built.summary['next']}"))
    for failed in built.failed:
        echo(one_line(f"{built.study}: no report: {failed}"), err=True)
    for page in built.pages[:1]:
        echo(f"report: {page}")
    for page in built.pages:
        if page.suffix == ".md":
            echo(f"Markdown: {page}")


def _report_record(built: BuiltReport) -> dict[str, Any]:
    """Return what `--json` prints about a report: its summary, with the paths of all pages."""
    pages = {"pages": list(map(str, built.pages)), "failed": built.failed}
    return built.summary | pages | {"study": built.study, "next": built.summary.get("next") or None}


def _report_site(hosts: Path | None, new: bool, jobs: int | None, timeout_s: int, as_json: bool) -> None:
    """Run the smoke studies that have no run yet, make every report, and print the duration of each."""
    from loadbook.batch.index import write_index, write_site_summary
    from loadbook.batch.site import build_all_reports, run_smoke_studies, site_record
    from loadbook.ingestion.workers import usable_cpus

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    layout, display, began = project_layout(), ProgressDisplay(sys.stderr), clock.now()
    parts: dict[str, SiteStudy] = {}
    with display:
        for part in run_smoke_studies(layout, hosts, new, display, display.step):
            parts[part.study] = part
            stands = " stands" if part.stood else f", {format_duration(part.ran_s)}"
            display.step(f"{part.study}: " + (f"not run: {part.lacks}" if part.lacks else f"run {part.run}{stands}"))
    failed, runs_end, records = False, clock.monotonic(), list[dict[str, Any]]()
    for one in build_all_reports(layout, _recorded_studies(layout), jobs or usable_cpus(), timeout_s):
        outcome = f"no report: {one.error}" if one.error else f"report, {format_duration(one.took_s)}"
        display.step(f"{one.study}: {outcome}")
        failed |= one.error is not None
        if one.study in parts:
            parts[one.study].reported_s = one.took_s
        if one.built:
            _print_report(one.built)
            records.append(_report_record(one.built))
        else:
            records.append({"study": one.study, "pages": [], "failed": [one.error], "next": None})
    reported_s = clock.monotonic() - runs_end
    record = site_record(list(parts.values()), began, reported_s)
    write_site_summary(layout.reports, record)
    index = write_index(layout.reports)
    echo(f"index: {index}")
    if as_json:
        print_json({"index": str(index), "reports": records, "site": record})
    for part in parts.values():
        times = f"run {format_duration(part.ran_s)}\treport {format_duration(part.reported_s)}"
        echo(f"{part.study}\t{f'not run: {part.lacks}' if part.lacks else times}")
    echo(f"runs {format_duration(record['ran_s'])}, reports {format_duration(reported_s)}")
    if failed or any(part.lacks for part in parts.values()):
        sys.exit(3)


def _recorded_studies(layout: Layout) -> list[str]:
    names = layout.studies_with_runs()
    if not names:
        raise UsageError(f"no study has a run under {layout.root / 'data' / 'raw'}", "loadbook run STUDY")
    return names


@click.command()
@study_argument
@click.option("--metric", default="", help="Default: the study's own.")
@click.option("--rate", type=float, default=0.01, show_default=True, help="False alarms per run while nothing changes.")
@click.option("--by-name", is_flag=True, help="Hosts of one name are one host, whatever machine they are.")
@click.option("--alarm", "strict", is_flag=True, help="Exit code 1 if the newest run is worse than its past.")
@json_option("every run, effect, change and alarm")
def history(study: str, metric: str, rate: float, by_name: bool, strict: bool, as_json: bool) -> None:
    """Show the level of each effect of STUDY, since when it holds, and whether the newest run is worse than before.

    Only runs of the same question on the same hosts are compared. With --alarm the exit code is 1 if the newest run is
    worse, 4 if it does not count; too few runs are no alarm. `loadbook report` draws the history.
    """
    from loadbook.analyses.history.page import history_page
    from loadbook.cli.data import study_name

    name = study_name(project_layout(), study)
    page = history_page(name, metric, rate, by_name, ProgressDisplay(sys.stderr).counter("runs read"))
    if as_json:
        print_json(history_record(page))
    else:
        _print_history(page)
    if strict:
        _exit_by_alarm(page)


def _print_history(page: HistoryPage) -> None:
    from loadbook.analyses.history import compute

    history = page.history
    if len(history.runs) == 1:
        echo(compute.one_run_sentence(history))
        return
    counts = f"{pluralize(len(history.runs), 'run')}, {history.included_runs} of which count"
    echo(f"{history.study}: {counts}; {history.metric}")
    echo(compute.headline(history))
    for series in history.series:
        echo(f"- {series.label} {compute.series_sentence(series)}")
    for run, changes in page.marks.items():
        echo(f"conditions of {run}: {'; '.join(changes)}")
    for summary in history.runs:
        if summary.excluded_reason:
            echo(f"left out: {summary.run}: {summary.excluded_reason}")
    echo(compute.supporting_text(history))


def _exit_by_alarm(page: HistoryPage) -> None:
    history = page.history
    if history.alarms:
        sys.exit(1)
    newest = history.runs[-1].run
    points = [point for series in history.treatments for point in series.points]
    if not history.assessed and not any(point.run == newest and point.is_included for point in points):
        reason = next((series.no_alarm_reason for series in history.treatments), "no run has a comparison")
        raise DataError(f"run {newest} cannot be held against its past: {reason}", "loadbook history STUDY")


def history_record(page: HistoryPage) -> dict[str, Any]:
    """Return the history as JSON: effects and bounds are ratios minus 1, times epoch seconds."""
    from loadbook.analyses.history import compute

    history, marks = page.history, page.marks
    return {
        "study": history.study, "metric": history.metric, "better": history.better, "margin": history.margin,
        "false_alarms_per_run": history.alarm_rate, "alarm": bool(history.alarms),
        "judged": [series.treatment for series in history.assessed],
        "headline": compute.headline(history), "hosts": page.runs.hosts,
        "runs": [
            {"run": run.run, "started": run.started, "hosts": None if run.hosts < 0 else run.hosts,
             "left_out": run.excluded_reason or None, "conditions_changed": list(marks.get(run.run, ()))}
            for run in history.runs
        ],
        "comparisons": [_series_record(series) for series in history.series],
    }  # fmt: skip


def _series_record(series: EffectSeries) -> dict[str, Any]:
    points = [
        {"run": point.run, "verdict": point.effect.verdict, "effect": point.effect.effect,
         "interval": list(point.effect.interval) if point.effect.interval else None, "level": point.effect.level,
         "blocks": point.effect.blocks, "does_not_count": point.excluded_reason or None}
        for point in series.points
    ]  # fmt: skip
    levels = [
        {"runs": [series.points[index].run for index in segment.indices], "hosts": segment.hosts,
         "effect": segment.effect, "interval": list(segment.interval), "begins": segment.start_kind}
        for segment in series.segments
    ]  # fmt: skip
    alarm = series.alarm and {
        "effect": series.alarm.effect, "expected": series.alarm.expected, "limit": series.alarm.limit,
        "past": series.alarm.past_runs, "speaks": series.alarm.raised, "rate": series.alarm.rate,
        "margin": series.alarm.margin, "power": series.alarm.power,
    }  # fmt: skip
    return {
        "treatment": series.treatment, "label": series.label, "kind": series.kind, "points": points, "levels": levels,
        "alarm": alarm, "no_alarm_possible": series.no_alarm_reason or None,
    }  # fmt: skip


@click.command()
@studies_argument
@json_option("one object per claim")
def claims(studies: tuple[str, ...], as_json: bool) -> None:
    """Check the claims of the articles on STUDY (default: every study that has claims) by the newest suitable run.

    Prints each claim with its verdict, the evidence, and whether the article's own numbers could have shown it.
    """
    from loadbook.analyses.claims.page import replay_claims

    layout = project_layout()
    names = studies or sorted(path.stem for path in layout.studies.glob("*.toml"))
    with_claims = [study for study in (find_study(layout.studies, name) for name in names) if study.published]
    claims = {study.name: replay_claims(layout, study, partial(_echo_about, study.name)) for study in with_claims}
    if as_json:
        records = [_claim_record(name, claim) for name, own in claims.items() for claim in own]
        print_json(records)
        return
    for study in with_claims:
        _print_claims(study, claims[study.name])
    if not with_claims:
        echo("No claims: none of these studies holds what an article says.", err=True)


def _echo_about(study: str, text: str) -> None:
    echo(f"{study}: {text}", err=True)


def _print_claims(study: Study, claims: list[ClaimByRun]) -> None:
    from loadbook.analyses.claims.compute import OUTCOMES, claim_title, claims_summary

    assert study.published is not None
    echo(f"{study.name}: {study.published.source}")
    results = [claim.result for claim in claims]
    for claim, result in zip(claims, results, strict=True):
        glyph, word = OUTCOMES[result.finding.outcome]
        run = f"  (run {claim.run}{', claim written after it' if claim.late else ''})" if claim.run else ""
        echo(f"{glyph} {word:22}  {claim_title(result.claim)}{run}")
        echo(f"    {result.finding.evidence}")
        could = result.article.could_show.capitalize()
        echo(f"    Could the article show it? {could}. {result.article.sentence}")
    if claims:
        echo(claims_summary([result.finding for result in results], [result.article.could_show for result in results]))
    echo()


def _claim_record(study: str, claim_by_run: ClaimByRun) -> dict[str, Any]:
    result = claim_by_run.result
    claim, finding, article = result.claim, result.finding, result.article
    return {
        "study": study, "run": claim_by_run.run,
        "claim": claim.quote or claim.claim, "kind": claim.effective_kind, "check": result.check,
        "outcome": finding.outcome, "size_met": finding.size_met, "evidence": finding.evidence,
        "written_after_run": claim_by_run.late,
        "article_could": article.could_show, "article_effect": article.effect, "article": article.sentence,
    }  # fmt: skip


class _GateCommand(click.Command):
    """A command that explains the former option `--json FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments of the command line; UsageError if a file follows --json."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            extra_word = type(error) is click.UsageError and "--json" in words
            if not extra_word and not (isinstance(error, click.BadOptionUsage) and error.option_name == "--json"):
                raise
            message = "--json takes no FILE: it prints the JSON summary to stdout, and the text to stderr"
            raise UsageError(message, "loadbook gate STUDY --json > FILE") from error


@click.command(cls=_GateCommand)
@study_argument
@click.option("--run", default="latest", show_default=True, help="Run id.")
@click.option(
    "--junit", type=click.Path(path_type=Path), metavar="FILE",
    help="Write JUnit XML, for the build's page; with -, print it instead of the text.",
)  # fmt: skip
@json_option("the summary that docs/ci.md describes; the text goes to stderr")
def gate(study: str, run: str, junit: Path | None, as_json: bool) -> None:
    """Check a run of STUDY by the table [ci] that its study had when the run was planned.

    Prints every condition, its result and the outcome. Exit codes:
    0 passed; 1 a verdict that the study declared unacceptable; 2 no [ci]; 4 no answer: an invalid comparison, or a
    check of the laboratory that failed.
    """
    from loadbook.report.ci import ci_document, junit_xml

    if as_json and junit == STDOUT:
        raise UsageError("--json and --junit - both print to stdout", "--junit FILE")
    ci_report = _ci_report(project_layout(), study, run)
    if junit:
        _write(junit, junit_xml([ci_report]))
    if as_json:
        print_json(ci_document(ci_report))
    if junit != STDOUT:
        for case in ci_report.result.cases:
            name = "" if case.sentence.startswith(case.name) or case.kind in ("aa", "control") else f"{case.name}: "
            echo(f"{case.outcome:8} {one_line(name + case.full_sentence)}")
        echo(one_line(ci_report.sentence))
    sys.exit(ci_report.result.exit_code)


def _ci_report(layout: Layout, study: str, run: str) -> CiReport:
    from loadbook.cli.data import study_name
    from loadbook.report.build import ensure_ingested
    from loadbook.report.ci import evaluate_ci
    from loadbook.store.tables import load_run

    name = study_name(layout, study)
    run = layout.resolve_run(name, run)
    ensure_ingested(layout.run(name, run), lambda text: echo(f"{name}: {text}", err=True))
    try:
        policy = find_study(layout.studies, study).ci
    except StudyError:
        raise
    except UsageError:  # an imported run has no study file
        policy = None
    ci_report = evaluate_ci(load_run(layout, name, run), policy)
    if ci_report is None:
        raise UsageError(f"study {name!r} has no [ci], neither in run {run} nor in its file", NO_POLICY_HINT)
    if ci_report.late:
        echo(f"note: run {run} was planned without [ci]; that of the study file is taken", err=True)
    elif policy is not None and policy != ci_report.policy:
        note = f"[ci] of the study file is another one now: it counts from the next run on, not for {run}"
        echo(f"note: {note}", err=True)
    return ci_report


def _write(path: Path, content: bytes) -> None:
    from loadbook.store.atomic import write_atomic

    if path == STDOUT:
        echo(content.decode().rstrip("\n"))
        return
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no file", "name a file, or - for stdout")
    write_atomic(path, content)
