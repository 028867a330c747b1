"""Command that checks the load generators of a driver: `loadbook calibrate`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadbook.cli import terminal
from loadbook.core.errors import LoadbookError, ToolError, UsageError
from loadbook.core.units import format_duration
from loadbook.store.paths import Layout, project_layout

if TYPE_CHECKING:
    from loadbook.calibration.certificate import Certificate


@click.command()
@terminal.hosts_option
@click.option("--tool", "tools", multiple=True, metavar="TOOL", help="Only this tool; may be repeated. Default: all.")
@click.option("--blocks", type=click.IntRange(min=1), default=1, show_default=True, help="Trials of each case.")
@click.option("--new", is_flag=True, help="Start anew although the last calibration is unfinished.")
@click.option(
    "--yes", is_flag=True, help="Start the load without a question; needed with --json or without a terminal."
)
@terminal.json_option("the certificate")
def calibrate(
    hosts_file: Path | None, tools: tuple[str, ...], blocks: int, new: bool, yes: bool, as_json: bool
) -> None:
    """Check which numbers of the driver's load generators may be trusted.

    Every tool that is installed loads a server of known behaviour (service go-app on the host of role server), which
    records what it answered. The certificate is kept in data/certificates, and reports of studies on this driver cite
    it. Every call measures, about 4 s for each of at most 13 cases of a tool; a question tells the whole time first.
    """
    from loadbook.calibration.certificate import make_certificate, write_certificate
    from loadbook.store.tables import load_run

    if not yes and (as_json or not terminal.can_ask()):
        message = "calibrate puts load on the hosts for minutes: with --json or without a terminal it needs --yes"
        raise UsageError(message, "loadbook calibrate ... --yes")
    layout = project_layout()
    path = hosts_file or _lab_hosts(layout)
    installed, missing = _driver_tools(path, tools)
    for hint in missing:
        terminal.echo(hint, err=True)
    if not yes and not terminal.confirm(_load_text(path, installed, blocks)):
        raise click.Abort
    runs = _run_studies(layout, installed, hosts_file, blocks, new)
    certificate = make_certificate([load_run(layout, study, run) for study, run in runs.items()])
    file = layout.certificates / f"{min(runs.values())}.json"
    write_certificate(certificate, file)
    if as_json:
        terminal.print_json(certificate.model_dump(mode="json"))
        return
    _print_certificate(certificate)
    terminal.echo(f"certificate {file}")


def _load_text(path: Path, tools: Sequence[str], blocks: int) -> str:
    """Return the question before the load: its hosts file, tools, cases and duration."""
    from loadbook.calibration.cases import CASE_S, usable_cases

    trials = blocks * sum(len(usable_cases(tool)) for tool in tools)
    load = f"{trials} trials of {', '.join(tools)}, {format_duration(trials * CASE_S)}"
    return f"This puts load on the hosts of {path}: {load}. Start?"


def _lab_hosts(layout: Layout) -> Path:
    """Start the lab with a server and return its hosts file."""
    from loadbook.hosts.lab import Lab

    lab = Lab.load(layout.lab, None, {"server": 1})
    lab.up()
    return lab.hosts_file


def _driver_tools(path: Path, wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the tools to calibrate, and a line for each that has no case or is not on the driver."""
    from loadbook.calibration.cases import DURATION_S, usable_cases
    from loadbook.execution.preflight import read_version
    from loadbook.hosts.inventory import read_hosts
    from loadbook.hosts.remote import connect
    from loadbook.tools import base

    inventory = read_hosts(path)
    drivers = inventory.with_role("driver")
    if len(drivers) != 1:
        raise UsageError(
            f"{path} has {len(drivers)} hosts of role driver; a certificate is that of one",
            "give it a hosts file with one",
        )
    known = base.run_tools()
    for name in wanted:
        if base.load_tool(name).name not in known:
            raise UsageError(f"loadbook does not run {name}", "leave it out")
    host = connect(path, drivers[0], "calibrate", hosts=inventory)
    try:
        installed, missing = [], []
        for name in wanted or known:
            if not usable_cases(name):
                missing.append(f"left out: {name} cannot make a load of {DURATION_S} s, which every case has")
                continue
            try:
                read_version(host, known[name])
                installed.append(name)
            except ToolError as error:
                missing.append(f"left out: {error.message}; {error.hint}")
    finally:
        host.close()
    if not installed:
        raise ToolError(f"host {drivers[0]}: no load generator to calibrate", "; ".join(missing))
    return installed, missing


def _run_studies(layout: Layout, tools: Sequence[str], hosts: Path | None, blocks: int, new: bool) -> dict[str, str]:
    """Run the study of each load model and make its tables; return study -> run."""
    from loadbook.calibration.cases import STUDY_NAMES, study_text
    from loadbook.cli.data import make_tables
    from loadbook.execution.select import RunRequest
    from loadbook.execution.session import run_study

    runs = {}
    again = ["loadbook", "calibrate", *(["--hosts", str(hosts)] if hosts else [])]
    for load_model, study in STUDY_NAMES.items():
        text = study_text(tools, load_model, blocks)
        if text is None:
            continue
        file = layout.certificates / "studies" / f"{study}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        with (
            terminal.handle_interrupts(hosts or layout.lab / "hosts.toml", shlex.join(again)),
            terminal.ProgressDisplay(sys.stderr) as display,
        ):
            runs[study] = run_study(layout, RunRequest(str(file), hosts, new=new), on_event=display)
        try:
            terminal.echo(make_tables(layout, study, runs[study]), err=True)
        except LoadbookError as error:  # no trial counts for a verdict; the certificate is about their numbers
            terminal.echo(error.message, err=True)
    return runs


def _print_certificate(certificate: Certificate) -> None:
    from loadbook.calibration.tables import CASE_HEADINGS, NUMBERS, TRUST_HEADINGS, case_lines, case_rows, trust_rows

    terminal.print_table(
        CASE_HEADINGS, case_rows(certificate), right=NUMBERS, title="What each tool said / what was true (times in ms)"
    )
    for line in case_lines(certificate):
        terminal.echo(line)
    terminal.print_table(TRUST_HEADINGS, trust_rows(certificate), fold=NUMBERS, title="Which numbers may be trusted")
    for treatment, reason in certificate.failed.items():
        terminal.echo(f"failed: {treatment}: {reason}", err=True)
