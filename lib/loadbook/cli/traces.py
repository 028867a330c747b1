"""`loadbook traces`: what other monitors recorded of a run's hosts, kept with the run and read into its tables."""

from __future__ import annotations

from pathlib import Path

import click

from loadbook.cli.say import echo
from loadbook.core.units import format_duration
from loadbook.records.layout import project_layout


@click.command()
@click.argument("study")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--host", required=True, metavar="ALIAS", help="The host that the files are of.")
@click.option("--kind", default="auto", show_default=True, metavar="KIND", help="What wrote them: docs/traces.md.")
@click.option("--run", "run_id", default="latest", show_default=True, metavar="RUN", help="Run id.")
@click.option("--role", metavar="ROLE", help="What the machine did, if the run has no such host.")
@click.option(
    "--clock-offset", type=float, metavar="S", help="Its clock minus ours, seconds; default: as the run measured it."
)
def traces(
    study: str, files: tuple[Path, ...], host: str, kind: str, run_id: str, role: str | None, clock_offset: float | None
) -> None:
    """Keep files of sysstat, munin or Prometheus with a run, and make its tables again.

    FILE: sar's binary data or what sadf -j or sadf -d printed; rrdtool xport, dump or fetch of munin's databases, all
    fields of a host at once; node_exporter's text with timestamps. They are copied, checksummed and in the ledger.
    """
    from loadbook.cli.ingest import make_tables, study_name
    from loadbook.trials.trace_files import add_metric_files, read_metric_files

    here = project_layout()
    name = study_name(here, study)
    resolved = here.resolve_run(name, run_id)
    given = read_metric_files(files, kind)
    for one, kept in zip(given, add_metric_files(here, name, resolved, given, host, role, clock_offset), strict=True):
        found = one.traces
        metrics = ", ".join(sorted({str(row["metric"]) for row in found.rows}))
        echo(f"{', '.join(Path(file).name for file, _ in kept.parsed_files)}: {one.kind}, host {host}, role {kept.role}")
        echo(f"  {len(found.times):,} samples, one every {format_duration(found.interval_s)}: {metrics}")
        for problem in found.problems:
            echo(f"  note: {problem.name}: {problem.message}")
    echo(make_tables(here, name, resolved))
    echo(f"next: loadbook report {name}, or the notebook resource_traces on any study")
