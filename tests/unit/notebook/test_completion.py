"""The Tab key inside quotes: names of studies, metrics and trials."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

import loadbook as lb
from loadbook.notebook import register_completion
from recorded_run import STUDY

pytestmark = pytest.mark.filterwarnings("ignore:`Completer.complete` is pending:PendingDeprecationWarning")


@pytest.fixture
def complete(run):
    shell = InteractiveShell()
    shell.user_ns |= {"lb": lb, "run": run}
    register_completion(shell)

    def matches(line: str) -> list[str]:
        return shell.complete(None, line, len(line))[1]

    return matches


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('lb.load("rec', STUDY),
        ('lb.plan("a', "aa"),
        ('run.compare("ok_per', "ok_per_s"),
        ('run.wide("ok_per_s", "latency p9', "p99"),
        ("run.why('t000", "t0007"),
    ],
)
def test_name_inside_quotes_is_completed(complete, line, expected):
    assert expected in complete(line)


def test_completion_suggests_nothing_for_other_objects(complete):
    assert STUDY not in complete('text.load("rec')
