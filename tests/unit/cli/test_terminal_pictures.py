"""Pictures of characters are printed only on a terminal that can show them; pipes and `--json` stay as they are."""

from __future__ import annotations

import io
import sys

import click
import pytest

from loadbook.cli import report
from loadbook.report.build import BuiltReport
from loadbook.report.strips import KEY_LINE

SENTENCE = "▲ a is faster by 6 %."
EFFECT = {
    "sentence": SENTENCE, "kind": "better", "glyph": "▲", "change": 0.06, "low": 0.05, "high": 0.07,
    "margin": [-0.02, 0.02], "text": "a: faster",
}  # fmt: skip


class Screen(io.TextIOWrapper):
    """A stdout that is a terminal or not."""

    def __init__(self, encoding: str, live: bool) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="replace")
        self.live = live

    def isatty(self) -> bool:
        return self.live

    def text(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode(self.encoding)  # type: ignore[attr-defined]


def printed(monkeypatch, encoding: str, live: bool, columns: int, **parameters: bool) -> str:
    """Return what the command prints about a report on such a stdout."""
    screen = Screen(encoding, live)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    context = click.Context(click.Command("report"))
    context.params.update(parameters)
    with context:
        report._print_report(BuiltReport("s", "r", {"sentences": [SENTENCE, "b"], "effects": [EFFECT]}))
    return screen.text()


def test_report_prints_a_strip_below_a_verdict_on_a_terminal(monkeypatch) -> None:
    sentence, strip, other, key = printed(monkeypatch, "utf-8", True, 80).splitlines()
    assert (sentence, other, key) == (SENTENCE, "b", KEY_LINE)
    assert "├" in strip and "▲" in strip and "┤" in strip
    assert len(strip) <= 80


@pytest.mark.parametrize(("encoding", "live", "columns"), [("utf-8", False, 80), ("utf-8", True, 59)])
def test_report_prints_sentences_only_in_a_pipe_and_on_a_narrow_terminal(monkeypatch, encoding, live, columns) -> None:
    assert printed(monkeypatch, encoding, live, columns).splitlines() == [SENTENCE, "b"]


def test_report_prints_sentences_only_on_a_terminal_without_utf8(monkeypatch) -> None:
    assert len(printed(monkeypatch, "latin-1", True, 80).splitlines()) == 2


def test_report_prints_sentences_only_with_json(monkeypatch, capsys) -> None:
    assert printed(monkeypatch, "utf-8", True, 80, as_json=True) == ""
    assert capsys.readouterr().err.splitlines() == [SENTENCE, "b"]
