"""`loadbook report`: notebooks -> HTML, and the index page."""

from __future__ import annotations

import sys
import time

import click

from loadbook.core.errors import UsageError
from loadbook.records.layout import Layout
from loadbook.records.layout import layout as layout_of


@click.command()
@click.argument("studies", nargs=-1, metavar="[STUDY]...")
@click.option("--run", default="latest", show_default=True, help="Run id; needs exactly one STUDY.")
@click.option("-p", "--parameter", "pairs", multiple=True, metavar="NAME=VALUE", help="Notebook parameter.")
def report(studies: tuple[str, ...], run: str, pairs: tuple[str, ...]) -> None:
    """Execute the notebooks of STUDY (default: every study that has a run) and export them to reports/.

    The last lines are the verdict sentences and the report's path. Exit code 3: a notebook failed; the index says
    which, and the other pages are there.
    """
    from loadbook.report.build import build
    from loadbook.report.index import write_index

    layout = layout_of()
    chosen = studies or _recorded(layout)
    if run != "latest" and len(chosen) != 1:
        raise UsageError("--run needs exactly one STUDY")
    clock = _Clock()
    built = [build(layout, study, run, pairs, clock.say) for study in chosen]
    written = write_index(layout.reports)
    clock.say("done")
    for one in built:
        for line in one.summary.get("sentences", []):
            click.echo(line)
        for failed in one.failed:
            click.echo(f"{one.study}: no report: {failed}", err=True)
        for page in one.pages[:1]:
            click.echo(f"report: {page}")
    click.echo(f"index: {written}")
    if any(one.failed for one in built):
        sys.exit(3)


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
        click.echo(f"{time.monotonic() - self.start:5.1f} s  {text}", err=True)
