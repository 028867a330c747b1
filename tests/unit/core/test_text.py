"""Text from anywhere reaches terminals and logs without what acts on them."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import loadbook
from hostile_texts import CORPUS, TERMINAL, silent
from loadbook.cli import cli
from loadbook.cli.terminal import ProgressDisplay, cell, echo
from loadbook.core.errors import HostError, SpecProblem, StudyError
from loadbook.core.text import clean, closest_name, one_line
from loadbook.execution.progress import Progress

pytestmark = pytest.mark.fault(44)


@pytest.mark.parametrize("text", TERMINAL)
def test_clean_text_removes_terminal_control_sequences(text: str) -> None:
    assert not silent(text)
    cleaned = clean(f"before {text} after")
    assert silent(cleaned) and cleaned.startswith("before ") and cleaned.endswith(" after")


def test_clean_text_keeps_lines_tabs_and_any_language() -> None:
    for text in ("a\n\tb", "größe 1 µs 日本 −5 %", "₁²³ ✓ ▲"):
        assert clean(text) == text
    assert one_line("a\r\n[2/3] block 1\u2028 x\n\n") == "a [2/3] block 1 x"


def test_errors_and_progress_contain_no_control_characters() -> None:
    for text in CORPUS:
        error = HostError("web", f"it said: {text}", text)
        assert silent(error.message) and silent(error.hint or "") and silent(str(error))
        assert silent(StudyError(text, [SpecProblem(text, text)]).message)
        for event in (Progress("note", text), Progress("trial-ended", text, "t1", "plain", 1, 2, 1, 2, "failed")):
            assert silent(event.line()) and "\n" not in event.line()


@pytest.mark.parametrize("tty", [False, True])
def test_live_progress_line_contains_no_escape_sequences_of_others(tty: bool) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return tty

    stream = Terminal()
    with ProgressDisplay(stream) as display:
        for text in TERMINAL:
            display(Progress("trial-ended", text, "t1", "plain", 1, 2, 1, 2, "failed"))
    output = stream.getvalue()
    assert "]8;;http://127.0.0.1:9/" in output
    for evil in ("\x1b]8", "\x1b]0", "\x1b[31m", "\x1b[1;1H", "\x9b", "\u202e"):
        assert evil not in output


def test_printed_lines_and_table_cells_contain_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    for text in CORPUS:
        echo(text)
        echo(text, err=True)
        assert silent(cell(text).plain)
    printed = capsys.readouterr()
    assert silent(printed.out) and silent(printed.err)
    assert "[sudo] password: " in printed.out


def test_every_module_prints_through_functions_that_remove_control_characters() -> None:
    folder = Path(loadbook.__file__).parent
    doors = {folder / "cli" / "terminal.py"}
    others = [p for p in (folder / "cli").glob("*.py") if p not in doors]
    found = [p.name for p in others if re.search(r"click\.s?echo\(|\bText\((?!\")", p.read_text())]
    assert found == []


def test_table_of_a_parsed_tool_output_contains_no_control_characters(tmp_path: Path) -> None:
    """`loadbook parse` of an output that a server of ours could have made of its answers."""
    report = (
        "Running 1s test @ http://127.0.0.1:1/\x1b]8;;http://127.0.0.1:9/\x1b\\\n  1 threads and 1 connections\n"
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     1.00ms    1.00us   1.00ms  100.00%\n"
        "    Req/Sec     1.00k     0.00     1.00k   100.00%\n  1000 requests in 1.00s, 1.00MB read\n\x1b[2J"
        "Requests/sec:   1000.00\nTransfer/sec:      1.00MB\n"
    )
    (tmp_path / "out.txt").write_text(report)
    done = CliRunner().invoke(cli, ["parse", "wrk", str(tmp_path / "out.txt")])
    output = str(done.exception) if done.exception else done.output
    assert silent(output)
    (tmp_path / "none.txt").write_text("".join(TERMINAL).replace("\ud800", ""))
    done = CliRunner().invoke(cli, ["parse", "wrk", str(tmp_path / "none.txt")])
    assert done.exit_code and silent(str(done.exception)) and silent(done.output)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("latenci", "latency"), ("LATENCY", "latency"), ("zzz", None), ("", None), ("x" * 10_000, None), (7, None)],
)
def test_closest_name_is_the_most_similar_known_name(name: object, expected: str | None) -> None:
    assert closest_name(name, ["errors", "ok", "latency"]) == expected
    assert closest_name(name, []) is None
