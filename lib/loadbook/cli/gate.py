"""`loadbook gate`: does a run pass what its study declares unacceptable? For builds: exit code, JUnit XML, JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadbook.cli.say import echo
from loadbook.core.errors import StudyError, UsageError
from loadbook.core.text import one_line
from loadbook.records.layout import Layout
from loadbook.records.layout import project_layout

if TYPE_CHECKING:
    from loadbook.design.build_gate import CiPolicy
    from loadbook.report.build_gate import CiReport

NONE = 'declare there what fails a build, [gate] with undecided = "fail" or "pass" (docs/ci.md)'
STDOUT = Path("-")


@click.command()
@click.argument("study")
@click.option("--run", default="latest", show_default=True, help="Run id.")
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write JUnit XML, for the build's page.")
@click.option("--json", "summary", type=click.Path(path_type=Path), metavar="FILE", help="Write the JSON summary.")
def gate(study: str, run: str, junit: Path | None, summary: Path | None) -> None:
    """Judge a run of STUDY by the table [gate] that its study had when the run was planned.

    Prints what was asked, what was seen and what follows. A FILE of - is stdout, in place of that table. Exit codes:
    0 passed; 1 a verdict that the study declared unacceptable; 2 no [gate]; 4 what was asked cannot be judged: an
    invalid comparison, a check of the laboratory that failed.
    """
    from loadbook.report.build_gate import ci_document
    from loadbook.report.junit import junit_xml as as_junit

    if junit is not None and junit == summary:
        raise UsageError(f"--junit and --json cannot both go to {junit}")
    found = _found(project_layout(), study, run)
    if junit:
        _write(junit, as_junit([found]))
    if summary:
        _write(summary, _json(ci_document(found)))
    if STDOUT not in (junit, summary):
        _print(found)
    sys.exit(found.result.exit_code)


def _found(here: Layout, study: str, run: str) -> CiReport:
    from loadbook.cli.ingest import study_name
    from loadbook.records.rundata import load_run
    from loadbook.report.build import ensure_ingested
    from loadbook.report.build_gate import evaluate_ci

    name = study_name(here, study)
    run = here.resolve_run(name, run)
    ensure_ingested(here.run(name, run), lambda text: echo(text, err=True))
    data = load_run(here, name, run)
    now = _gate_now(here, study)
    found = evaluate_ci(data, now)
    if found is None:
        raise UsageError(f"study {name!r} has no [gate], neither in run {run} nor in its file", NONE)
    if found.late:
        echo(f"note: run {run} was planned without [gate]; that of the study file is taken", err=True)
    elif now is not None and now != found.policy:
        echo(
            f"note: [gate] of the study file is another one now: it counts from the next run on, not for {run}",
            err=True,
        )
    return found


def _gate_now(here: Layout, study: str) -> CiPolicy | None:
    """Return the gate in the study's file; None where there is no such file, as of a run that came from elsewhere."""
    from loadbook.design.study_file import find_study

    try:
        return find_study(here.studies, study).gate
    except StudyError:
        raise
    except UsageError:
        return None


def _write(path: Path, content: bytes) -> None:
    from loadbook.records.atomic import write_atomic

    if path == STDOUT:
        echo(content.decode().rstrip("\n"))
        return
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no file", "name a file, or - for stdout")
    write_atomic(path, content)


def _json(document: object) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _print(found: CiReport) -> None:
    for case in found.result.cases:
        name = "" if case.sentence.startswith(case.name) or case.kind in ("aa", "control") else f"{case.name}: "
        echo(f"{case.outcome:8} {one_line(name + case.full_sentence)}")
    echo(one_line(found.sentence))
