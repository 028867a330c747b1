"""Artillery's text has the numbers of the same run in JSON; what contradicts itself is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loadbook.core.errors import ParseError
from loadbook.tools import base
from loadbook.tools.base import ParsedReport, ToolOutput
from tool_captures import FIXTURES, attempt, capture, check_sane, swapped, table, values

ARTILLERY = base.load_tool("artillery")
BOTH = sorted((FIXTURES / "artillery").glob("*_both.stdout"))
ONLY_JSON = {("ttfb", statistic) for statistic in ("p75", "p90", "p99.9")}
RATES = {("requests_per_s", "value"), ("ok_per_s", "value"), ("duration", "value")}
SUMMARY = "Summary report @"


def text_of(name: str) -> bytes:
    return (FIXTURES / "artillery" / f"2.0.21--{name}.stdout").read_bytes()


def parse(data: bytes) -> ParsedReport:
    return ARTILLERY.parse(ToolOutput(data))


def last(text: str, old: str, new: str) -> bytes:
    """Return a text with a part of its summary changed."""
    before, mark, summary = text.partition(SUMMARY)
    return (before + mark).encode() + swapped(summary.encode(), (old, new))


@pytest.mark.parametrize("path", BOTH, ids=[path.stem for path in BOTH])
def test_text_of_artillery_has_the_numbers_of_its_report_in_json(path: Path) -> None:
    captured = capture(path)
    text, report = parse(captured.stdout), ARTILLERY.parse(captured)
    check_sane(text)
    has_rates = "clean" in path.stem
    expected = {key: value for key, value in values(report).items() if key not in ONLY_JSON}
    assert values(text) == {key: value for key, value in expected.items() if has_rates or key not in RATES}
    doubts = dict(text.doubts)
    assert has_rates == (doubts.pop("coarse_duration", None) is None) and doubts == dict(report.doubts)


def test_times_have_the_steps_to_which_artillery_rounds_them() -> None:
    rows = table(parse(text_of("clean_text")).measurements)
    steps = {name: (rows["ttfb", name].text, rows["ttfb", name].resolution) for name in ("min", "mean", "p50")}
    assert steps == {"min": ("13", 1e-3), "mean": ("20.7", 1e-4), "p50": ("21.1", 1e-4)}


def test_summary_alone_has_counts_and_times_and_no_rates() -> None:
    whole = values(parse(text_of("clean_text")))
    alone = parse(text_of("clean_text").partition(b"All VUs finished")[2])
    assert values(alone) == {key: value for key, value in whole.items() if key not in RATES}
    assert [name for name, _ in alone.doubts] == ["coarse_duration"]


@pytest.mark.parametrize("name", ["clean_text", "rst_both", "periods_both"])
def test_line_that_is_missing_is_refused_or_changes_no_number(name: str) -> None:
    lines = text_of(name).splitlines(keepends=True)
    whole = values(parse(b"".join(lines)))
    for place, line in enumerate(lines):
        parsed = attempt("artillery", ToolOutput(b"".join(lines[:place] + lines[place + 1 :])))
        found = values(parsed) if parsed else {}
        assert all(whole[key] == value for key, value in found.items()), line


def test_blanks_before_lines_and_between_words_change_no_number() -> None:
    whole = text_of("clean_text")
    for changed in (whole.replace(b"  ", b" "), whole.replace(b"\n  ", b"\n"), whole.replace(b"\n", b"\r\n")):
        assert parse(changed) == parse(whole)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("http.codes.200: ", "http.codes.201: ", "http.codes.200 is 0, but 120 in all periods"),
        (
            "requests: ................................................................. 120",
            "requests: ... 150",
            "is 150",
        ),
        ("http.responses: ", "http.requests: ", "a second line"),
        ("http.response_time.2xx:", "http.response_time.4xx:", "classes of statuses"),
        ("http.response_time.2xx:", "http.response_time:", "a second line"),
        ("http.downloaded_bytes: ", "bytes: ", "no line 'http.downloaded_bytes'"),
        ("41/sec", "44/sec", "http.request_rate is another than in its period"),
        ("83.9", "84.9", "vusers.session_length is another than in its period"),
        ("vusers.session_length:", "session_length:", "no line 'vusers.session_length'"),
        ("11:48:45(", "11:48(", "line cut or changed"),
        (
            "vusers.failed: ................................................................. 0",
            "vusers.failed: ...",
            "cut",
        ),
    ],
)
def test_text_that_contradicts_itself_is_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse(last(text_of("clean_text").decode(), old, new))


@pytest.mark.parametrize(
    ("width", "dropped", "reason"),
    [
        ("9.991", "", "a width of 9.991 s, but a total time of 4 s"),
        ("9.991", "All VUs finished", "but the summary is 5 s after the begin"),
        ("92.991", "", "but a period has 10 s"),
        ("0.991", "", "120 requests a second in 0.991 s, but http.request_rate is 41/sec"),
    ],
)
def test_width_that_total_time_clock_or_rate_contradict_is_refused(width: str, dropped: str, reason: str) -> None:
    lines = text_of("clean_text").decode().replace("(width: 2.991s)", f"(width: {width}s)").splitlines(keepends=True)
    kept = [line for line in lines if not dropped or not line.startswith(dropped)]
    with pytest.raises(ParseError, match=reason) as refusal:
        parse("".join(kept).encode())
    assert refusal.value.line == 7


def test_progress_without_a_summary_is_refused() -> None:
    with pytest.raises(ParseError, match="report is not complete: no line like 'Summary report @"):
        parse(text_of("clean_text").partition(b"All VUs finished")[0])


def test_report_in_json_beside_the_text_is_read_rather_than_it() -> None:
    captured = capture(FIXTURES / "artillery/2.0.21--clean_both.json")
    changed = replace(captured, stdout=captured.stdout.replace(b"24.8", b"25.8"))
    assert ARTILLERY.parse(changed) == ARTILLERY.parse(captured)


def test_names_that_artillery_cuts_alike_are_errors_of_their_sum() -> None:
    """A name with more than 79 characters ends with three dots."""
    text = text_of("rst_both").decode().partition("All VUs finished")[2]
    line = next(line for line in text.splitlines() if line.startswith("errors.ECONNRESET"))
    long = f"{'errors.Failed capture or match '.ljust(76, 'x')}..."
    parsed = parse(text.replace(line, f"{long}  5\n{long}  7").encode())
    assert values(parsed)["errors", "count"] == 12 and "errors_unclassed" not in dict(parsed.doubts)


def test_metrics_of_plugins_change_no_number() -> None:
    text = text_of("clean_text").decode()
    row = "my.metric: ..................................................................... -2.5"
    assert parse(text.replace("vusers.completed", f"{row}\nvusers.completed").encode()) == parse(text.encode())
