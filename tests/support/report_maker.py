"""Reports of a project, made with `loadbook report`."""

from dataclasses import dataclass

import pytest
from click.testing import CliRunner

from loadbook.cli.report import report
from loadbook.store.paths import Layout


@dataclass
class Made:
    """A project with the report that `loadbook report` made."""

    layout: Layout
    output: str
    exit_code: int
    stderr: str = ""

    def page(self, name: str = "nginx-directives.html") -> str:
        return (self.layout.reports / name).read_text(encoding="utf-8")


def make_report(layout: Layout, *arguments: str) -> Made:
    """Call `loadbook report` in a project."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADBOOK_HOME", str(layout.root))
        result = CliRunner().invoke(report, list(arguments), catch_exceptions=False)
    return Made(layout, result.stdout, result.exit_code, result.stderr)
