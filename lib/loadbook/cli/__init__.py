"""The command line: each group of commands has a module, which is imported only when one of them is called.

- `terminal`: shared by all commands: arguments, output, progress, handling of Ctrl-C
- `events`: option `--events`: lines of JSON about a run or report, for batches, notebooks and programs
- `studies`: `loadbook init`, `docs`, `studies`, `new`
- `data`: `loadbook ingest`, `verify`, `parse`, `export`, `traces`
- `imports`: `loadbook import`
- `hosts`: `loadbook hosts`, `lab`, `doctor`, `restore`
- `run`: `loadbook plan`, `run`, `batch`
- `compare`: `loadbook compare`
- `calibrate`: `loadbook calibrate`
- `report`: `loadbook report`, `history`, `claims`, `gate`
"""

from __future__ import annotations

import importlib
import keyword
import os
import sys
import warnings
from typing import Any

import click

from loadbook.cli.terminal import CommandGroup, echo, echo_next_step, usage_error
from loadbook.core.errors import DataError, IgnoredSettingsWarning, LoadbookError

# command -> its module in this folder, and its summary (the module is imported only when the command is called)
COMMANDS = {
    "init": ("studies", "Make a project folder: notebooks, studies, an example run, a hosts file"),
    "docs": ("studies", "Show where the documentation is, a site with a search"),
    "doctor": ("hosts", "Check hosts: what is missing, where, and how to get it"),
    "lab": ("hosts", "Manage the lab on this machine: up, down, status, cut, join"),
    "hosts": ("hosts", "Trust host keys; list hosts"),
    "calibrate": ("calibrate", "Check which numbers of the driver's load generators may be trusted"),
    "studies": ("studies", "List every study: question, trials, time"),
    "new": ("studies", "Write a study file to begin with, from the variables of its services"),
    "plan": ("run", "Show trials, hours and the difference that so many blocks can detect; no network"),
    "run": ("run", "Run a study's plan on hosts, or resume it"),
    "ingest": ("data", "Make tidy tables of raw outputs"),
    "parse": ("data", "Print the measurements in one raw tool output"),
    "import": ("imports", "Import raw outputs that were measured without loadbook, or an exported run"),
    "export": ("data", "Export a run as one file: an archive, a CSV, benchstat's format"),
    "traces": ("data", "Add recordings of sysstat, munin or Prometheus to a run"),
    "compare": ("compare", "Compare the treatments in any CSV table"),
    "history": ("report", "Follow a study through its runs; exit code 1 for CI if the newest run is worse"),
    "gate": ("report", "Check a run against its study's [ci]: exit code, JUnit XML, JSON"),
    "report": ("report", "Execute notebooks and export them to HTML, with an index page"),
    "batch": ("run", "Run and report many studies by one call, resumable; a summary page"),
    "claims": ("report", "Check what published articles claim"),
    "verify": ("data", "Hash every raw file again and compare it with the record"),
    "restore": ("hosts", "Put back changes that were left on hosts"),
}


class LazyGroup(CommandGroup):
    """A group that lists commands without importing them, so that --help is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands in the order in which a user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command and return the command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"loadbook.cli.{COMMANDS[cmd_name][0]}")
        # a function cannot have the name of a Python keyword: `import_`
        command: click.Command = vars(module)[f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write name and summary of each command without importing its module."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="loadbook")
def cli() -> None:
    """Loadbook: benchmarks of web servers and load balancers, with verdicts that can be defended.

    Results go to stdout, progress to stderr. Exit codes: 0 fine, 1 a verdict that the study's [ci] declares
    unacceptable, 2 usage or bad spec, 3 a host or tool failed, 4 data invalid, 130 interrupted.
    """


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    from loadbook.core.toml import RenamedKeyWarning  # imports pydantic, which would slow down --help

    note = issubclass(category, (RenamedKeyWarning, IgnoredSettingsWarning))
    echo(f"note: {message}" if note else warnings.formatwarning(message, category, filename, lineno).rstrip(), err=True)


def main() -> None:
    """Run the command line; a LoadbookError ends it with a message and exit code instead of a traceback."""
    warnings.showwarning = _show_warning
    # its threads wait busily: matrices here are small, and a report takes a tenth less CPU time with one
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        cli(prog_name="loadbook", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except (click.Abort, KeyboardInterrupt):
        echo("interrupted", err=True)
        sys.exit(130)
    except (LoadbookError, click.ClickException) as caught:
        error = usage_error(caught) if isinstance(caught, click.ClickException) else caught
        echo(f"loadbook: {error.message}", err=True)
        echo_next_step(error.hint)
        sys.exit(error.exit_code)
    except OSError as error:
        from loadbook.store.atomic import DISK_FULL_ERRNOS, DISK_FULL_HINT, disk_full_message

        if error.errno not in DISK_FULL_ERRNOS:
            raise
        echo(f"loadbook: {disk_full_message(error)}", err=True)
        echo_next_step(DISK_FULL_HINT)
        sys.exit(DataError.exit_code)
