"""`loadbook history`: what became of a study's effects from run to run, and whether the newest run is worse."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli.say import echo
from loadbook.cli.ticker import Ticker
from loadbook.core.errors import DataError

if TYPE_CHECKING:
    from loadbook.report.history import HistoryPage
    from loadbook.stats.history.alarm import Alarm
    from loadbook.stats.history.result import EffectSeries, EffectPoint


@click.command()
@click.argument("study")
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
    from loadbook.cli.ingest import study_name
    from loadbook.records.layout import project_layout
    from loadbook.report.history import history_page

    name = study_name(project_layout(), study)
    page = history_page(name, metric, rate, by_name, Ticker(sys.stderr, "runs read"))
    echo(json.dumps(told(page), indent=1, ensure_ascii=False)) if as_json else _show(page)
    if strict:
        _end(page)


def _show(page: HistoryPage) -> None:
    from loadbook.stats.wording import history as words

    found = page.history
    echo(f"{found.study}: {words.run_count_text(len(found.runs))}, {found.included_runs} of which count; {found.metric}")
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
    from loadbook.stats.wording import history as words

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
