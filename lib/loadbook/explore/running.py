"""The verbs of the notebook run_study: plan, run or resume, ingest, state. What they do, trials and design do."""

from __future__ import annotations

from dataclasses import replace

from loadbook.core.units import format_duration, format_bytes
from loadbook.design.plan import make_plan
from loadbook.explore.cards import styled
from loadbook.explore.live import follow
from loadbook.explore.runner import Wish, attached, start
from loadbook.records.layout import project_layout
from loadbook.records.planned import is_run_complete
from loadbook.records.rundata import load_run
from loadbook.report.blocks import Block, render
from loadbook.report.notebooks import DONE_MIME
from loadbook.report.page import note_block
from loadbook.report.tables import Column, Table, table_text, table_markup
from loadbook.trials.ingest import ingest as ingest_run
from loadbook.trials.outlook import power_lines, forecast_power
from loadbook.trials.studies import load_study


def plan(study: str, subset: str = "", blocks: int = 0) -> Block:
    """Show what a new run would do: treatments, trials, hours, disk, what it can find at recorded noise; no network.

    Parameters
    ----------
    study : a name in studies/, a .toml file, or "NAME-smoke".
    subset, blocks : instead of the study's own; 0 blocks are those.

    Raises
    ------
    UsageError, StudyError : a wrong name, or mistakes in the study, all of them at once.
    """
    home = project_layout()
    planned = make_plan(load_study(home, study), subset or None, blocks or None)
    rows = [
        ["treatments", ", ".join(planned.study.label(name) for name in planned.treatments)],
        ["trials", f"{len(planned.trials)} ({planned.blocks} blocks of {len(planned.treatments)})"],
        ["takes about", format_duration(planned.hours * 3600)],
        ["disk", f"about {format_bytes(planned.disk_bytes)}"],
    ]
    rows += [line.split(maxsplit=1) for line in power_lines(forecast_power(home, planned)) if line[0] != " "]
    table = Table("Plan", [Column(study), Column("", wrap=True)], rows)
    return styled(Block(str(table_markup(table)), table_text(table)))


def run(
    study: str, hosts: str = "", subset: str = "", resume: str = "", execute: bool = False, new: bool = False
) -> Block:
    """Run a study and show how far it is, or go on with its unfinished run; without `execute` only say so.

    The run is a process of its own: closing the tab or restarting the kernel does not end it, and the same call shows
    it again. Interrupting the cell stops it, and the same call goes on. A study whose latest run is complete is not
    run again unless `new`.

    Parameters
    ----------
    study : a name in studies/, a .toml file, or "NAME-smoke".
    hosts : hosts file, by its path from the project's folder; empty is the loopback lab.
    subset, resume : names; empty for the study's own subset and for the latest unfinished run.
    execute : False does nothing, so that a notebook can be opened and run without a risk.
    new : start a new run although the latest is complete or unfinished.

    Raises
    ------
    UsageError, StudyError : a wrong name, or a mistake in the study; nothing was started.
    LoadbookError : the run could not go on; the message says why and what to do.
    """
    home = project_layout()
    name = load_study(home, study).name
    if not execute:
        return said("Nothing was executed. With execute = True the study is run, or its unfinished run resumed.")
    folder = home.study_raw(name)
    runner = attached(folder)
    done = home.runs(name)
    if runner is None and done and not (new or resume) and is_run_complete(home.run(name, done[-1])):
        return said(f"Run {done[-1]} of {study} is complete. To run it anew: new = True.")
    found = follow(runner or start(home, folder, Wish(study, hosts, subset, resume, new)))
    return said(f"Run {found} of {study} is complete.")


def ingest(study: str, run: str = "latest") -> Block:
    """Rebuild the tables of a run from its raw data and show how many trials they hold.

    Raises
    ------
    UsageError : no such study or run.
    DataError : raw files that cannot be read; the message names them.
    """
    home = project_layout()
    if not home.runs(study):
        return said(f"{load_study(home, study).name} has no run yet.")
    found = ingest_run(home.run(study, home.resolve_run(study, run)))
    problems = ", ".join(f"{n} {level}" for level, n in found.problems.items()) or "none"
    return said(f"{found.trials} of {found.planned} trials are there, {found.valid} count. Problems: {problems}.")


def state(study: str, run: str = "latest") -> Block:
    """Show per treatment how many trials were planned, ended well, and count.

    Raises
    ------
    UsageError : no such study or run.
    DataError : the run has no tables yet, or they cannot be read.
    """
    home = project_layout()
    done = {"notebook": "run_study", "study": study, "run": None}
    if not home.runs(study):
        load_study(home, study)
        return replace(said("The first run is one parameter away: execute = True."), data={DONE_MIME: done})
    data = load_run(home, study, run)
    planned = [t["treatment"] for t in data.plan["trials"]]
    rows = []
    for name in data.plan["treatments"]:
        own = data.trials[data.trials["treatment"] == name]
        ok = int((own["status"] == "ok").sum())
        rows.append([data.study.label(name), *map(str, (planned.count(name), len(own), ok, int(own["valid"].sum())))])
    heads = ("Planned", "Executed", "Ended well", "Count")
    table = Table("State", [Column("Treatment"), *(Column(h, True) for h in heads)], rows)
    html = table_markup(table) + render("note.html.j2", text=f"Run {data.run} of {study}.")
    return styled(Block(str(html), table_text(table), {DONE_MIME: done | {"run": data.run}}))


def said(text: str) -> Block:
    """Return a sentence that looks in a cell of its own as it does on a page."""
    return styled(note_block(text))
