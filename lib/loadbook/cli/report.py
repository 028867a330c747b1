"""`loadbook report`: notebooks -> HTML, and the index page; with --all the smoke studies are run first."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli.say import echo
from loadbook.core.errors import DataError, UsageError
from loadbook.core.text import one_line
from loadbook.core.units import format_duration
from loadbook.records.layout import Layout
from loadbook.records.layout import project_layout

if TYPE_CHECKING:
    from loadbook.report.build import BuiltReport
    from loadbook.report.site import SiteStudy


@click.command()
@click.argument("studies", nargs=-1, metavar="[STUDY]...")
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
    from loadbook.report.index import write_index

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
    from loadbook.report.against import build_comparison
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
    from loadbook.cli.progress import Reporter
    from loadbook.report.index import write_site_summary, write_index
    from loadbook.report.notebooks import TIMEOUT_S
    from loadbook.report.site import site_record, build_all_reports, run_smoke_studies
    from loadbook.trials.spread import usable_cpus

    signal.signal(signal.SIGTERM, _interrupt)
    layout, clock, began, parts = project_layout(), _Clock(), time.time(), {}
    with Reporter(sys.stderr) as reporter:
        for part in run_smoke_studies(layout, hosts, new, reporter, clock.say):
            parts[part.study] = part
            clock.say(_ended(part))
    failed, runs_end = False, time.monotonic()
    for one in build_all_reports(layout, _recorded(layout), jobs or usable_cpus(), timeout_s or TIMEOUT_S):
        clock.say(f"{one.study}: " + (f"no report: {one.error}" if one.error else f"report, {format_duration(one.took_s)}"))
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
