"""Arguments and options that several commands share, and how a shell completes names of studies."""

from __future__ import annotations

from pathlib import Path

import click

from loadbook.core.errors import LoadbookError
from loadbook.store.paths import project_layout


def _complete_study(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the studies of this project, those with a file and those with a run, that begin with `incomplete`."""
    try:
        layout = project_layout()
    except LoadbookError:
        return []
    names = {path.stem for path in layout.studies.glob("*.toml")} | set(layout.studies_with_runs())
    return sorted(name for name in names if name.startswith(incomplete))


study_argument = click.argument("study", shell_complete=_complete_study)
optional_study_argument = click.argument("study", required=False, shell_complete=_complete_study)
studies_argument = click.argument("studies", nargs=-1, metavar="[STUDY]...", shell_complete=_complete_study)

hosts_option = click.option(
    "--hosts", "hosts_file", type=click.Path(path_type=Path), help="Hosts file; default: the lab's."
)
run_option = click.option("--run", "run_id", default="latest", show_default=True, metavar="RUN", help="Run id.")
