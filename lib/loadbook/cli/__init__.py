"""Floor 9: how is it asked? Thin commands, one file per group, each imported only when it is called."""

from __future__ import annotations

import difflib
import importlib
import keyword
import sys
import warnings
from typing import TextIO

import click

from loadbook.cli.progress import echo
from loadbook.core.errors import DataError, LoadbookError, unknown_name_error
from loadbook.core.renamed_keys import RenamedKeyWarning

# command -> module of this folder that holds a click command of that name (a word of Python's has a `_` after it)
COMMANDS = {
    "init": "init",
    "doctor": "hosts",
    "lab": "hosts",
    "hosts": "hosts",
    "studies": "studies",
    "new": "studies",
    "plan": "run",
    "run": "run",
    "ingest": "data",
    "parse": "data",
    "import": "data",
    "export": "data",
    "traces": "data",
    "compare": "compare",
    "history": "report",
    "gate": "report",
    "report": "report",
    "batch": "batch",
    "claims": "report",
    "verify": "data",
    "restore": "hosts",
}


class LazyGroup(click.Group):
    """Lists commands without importing them, so that --help answers at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they are used."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"loadbook.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant; UnknownNameError lists them, the nearest first."""
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            error = unknown_name_error("command", args[0], COMMANDS)
            nearest = difflib.get_close_matches(args[0], COMMANDS, 1)
            error.hint = f"did you mean {nearest[0]}? {error.hint}" if nearest else error.hint
            raise error
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the one-line summaries that stand in SUMMARIES, importing nothing."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUMMARIES[name]) for name in COMMANDS])


SUMMARIES = {
    "init": "Make a project folder: notebooks, studies, an example run, a hosts file",
    "doctor": "What is missing, on which host, and how to get it",
    "lab": "The lab on this machine: up, down, status, cut, join",
    "hosts": "Trust host keys; list hosts",
    "studies": "Every study: its question, its trials, its time",
    "new": "A study file to begin with, from the variables of its services",
    "plan": "Trials, hours and the difference that so many blocks can detect; no network",
    "run": "Run a study's plan on hosts, or resume it",
    "ingest": "Raw outputs -> tidy tables",
    "parse": "One raw tool output -> measurement rows",
    "import": "Raw outputs that you have already, or an exported run -> a run like any other",
    "export": "A run as one file: an archive, a CSV for spreadsheets, benchstat's format",
    "traces": "What sysstat, munin or Prometheus recorded of a run's hosts -> its traces",
    "compare": "The statistics on any table",
    "history": "A study through its runs: what changed, and is the newest run worse? Exit code 1 for CI",
    "gate": "Does a run pass what its study declares unacceptable? JUnit XML, JSON",
    "report": "Notebooks -> HTML, and the index page",
    "batch": "Many studies run and reported by one call, resumable; a summary page",
    "claims": "What articles say, and how it fares here",
    "verify": "Is every raw file still as it was kept? Hash them again",
    "restore": "Put back what was left changed on hosts",
}


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="loadbook")
def cli() -> None:
    """Loadbook: benchmarks of web servers and load balancers, with verdicts that can be defended.

    Results go to stdout, progress to stderr. Exit codes: 0 fine, 1 a verdict that the study's [ci] declares
    unacceptable, 2 usage or bad spec, 3 a host or tool failed, 4 data invalid, 130 interrupted.
    """


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    note = category is RenamedKeyWarning
    echo(f"note: {message}" if note else warnings.formatwarning(message, category, filename, lineno).rstrip(), err=True)


def main() -> None:
    """Run the command line; errors of ours become a message and their exit code, never a traceback."""
    warnings.showwarning = _show_warning
    try:
        cli(prog_name="loadbook", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        if isinstance(error, click.MissingParameter) and error.param and error.param.name == "study":
            echo("  next: loadbook studies has them all", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        echo("interrupted", err=True)
        sys.exit(130)
    except LoadbookError as error:
        echo(f"loadbook: {error.message}", err=True)
        if error.hint:
            echo(f"  next: {error.hint}", err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        from loadbook.store.atomic import DISK_FULL_ERRNOS, DISK_FULL_HINT, disk_full_message

        if error.errno not in DISK_FULL_ERRNOS:
            raise
        echo(f"loadbook: {disk_full_message(error)}\n  next: {DISK_FULL_HINT}", err=True)
        sys.exit(DataError.exit_code)
