"""JTL in CSV: every capture against a slow reader that shares no code, and what hostile files become."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import jtl_captures as jtl
import slow_jtl_reader as slow
from loadbook.core.errors import ParseError
from loadbook.request_logs import jtl_csv, stream
from loadbook.request_logs.read import summarise
from loadbook.request_logs.stream import LogRowKind
from loadbook.request_logs.summary import Summary
from loadbook.tools import base
from loadbook.tools.base import ToolOutput
from tool_captures import values

WHOLE = [
    "3.3--csv_names", "3.3--embedded", "3.3--errors", "3.3--startup_1x1", "5.1.1--csv_names", "5.1.1--embedded",
    "5.1.1--errors", "5.1.1--messages", "5.1.1--summariser", "5.1.1--tx", "5.6.3--csv_all_columns",
    "5.6.3--csv_few_columns", "5.6.3--csv_https", "5.6.3--csv_mix_delay", "5.6.3--csv_timestamp_none",
    "5.6.3--locale_de", "5.6.3--locale_fr", "5.6.3--summariser_2s",
]  # fmt: skip
MULTI = "5.1.1--csv_names"
# columns of 5.x, as jmeter.properties has them: what the run of csv_noheader was given
NO_HEADER = {"jmeter.save.saveservice.print_field_names": "false"}


def read(data: bytes, **options: object) -> Summary:
    return summarise(data, "jmeter", file="out.jtl", **options)  # type: ignore[arg-type]


def lines(name: str = MULTI) -> list[bytes]:
    return jtl.capture(name).splitlines(keepends=True)


@pytest.fixture(params=["pyarrow", "strict"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Read once as usual, once record by record."""
    if request.param == "strict":

        def refuse(*_: object) -> None:
            raise pa.ArrowInvalid("for this test")

        monkeypatch.setattr(jtl_csv, "_parse_fast", refuse)
    return request.param


@pytest.mark.parametrize("name", WHOLE)
def test_jtl_csv_recorded_files_are_read_as_by_an_independent_reader(name: str, way: str) -> None:
    data = jtl.capture(name)
    expected = slow.figures(slow.requests(slow.rows(data)))
    jtl.same(jtl.reported(read(data)), expected)


@pytest.mark.parametrize("size", [100, 1000, 30_000])
@pytest.mark.parametrize("name", ["5.1.1--embedded", "5.1.1--messages", "5.1.1--tx", "5.6.3--csv_all_columns"])
def test_jtl_csv_is_read_alike_with_any_block_size(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = jtl.capture(name)
    whole = read(data)
    monkeypatch.setattr(stream, "BLOCK_BYTES", size)
    parts = read(data)
    assert jtl.reported(parts) == jtl.reported(whole)
    assert (parts.rows, parts.per_second_counts(), parts.damage) == (
        whole.rows,
        whole.per_second_counts(),
        whole.damage,
    )


def test_jtl_statistics_of_each_label_are_exact() -> None:
    data = jtl.capture(MULTI)
    summary, found = read(data), slow.rows(data)
    assert list(summary.labels) == ["home", "2k", "8k", "64k", "missing", "broken"]
    for label, tally in summary.labels.items():
        expected = slow.figures([row for row in found if row["label"] == label])
        jtl.same(jtl.reported(summary, tally) | {"duration_s": None}, expected | {"duration_s": None})


def test_jtl_per_second_series_counts_the_requests_that_ended_in_each_second() -> None:
    data = jtl.capture("5.6.3--csv_mix_delay")
    found = slow.rows(data)
    ends = [(int(row["timeStamp"]) + int(row["elapsed"])) // 1000 for row in found]
    series = read(data).per_second_counts()
    assert [n for _, n, _, _ in series] == [ends.count(second) for second in range(min(ends), max(ends) + 1)]
    assert sum(ok for *_, ok, _ in series) == 2710
    assert sum(errors for *_, errors in series) == 290


def test_jtl_transactions_and_sub_results_are_counted_once(way: str) -> None:
    summary = read(jtl.capture("5.1.1--tx"))
    assert summary.rows == {LogRowKind.REQUEST: 50, LogRowKind.TRANSACTION: 40}
    assert {label: tally.attempts for label, tally in summary.transactions.items()} == {
        "T flat": 10, "T parent": 10, "inner": 10, "T, nested": 10
    }  # fmt: skip
    embedded = read(jtl.capture("5.1.1--embedded"))
    assert embedded.rows == {LogRowKind.REQUEST: 20, LogRowKind.PART: 90}
    assert set(embedded.labels) == {"page", "html 404 inside"}


def test_jtl_row_named_like_a_sub_result_but_outside_its_parents_time_is_a_request() -> None:
    head, *rows = lines("5.1.1--embedded")
    alone = [rows[0], *(row.replace(b"17952133700", b"17952133800") for row in rows[1:3])]
    assert read(head + b"".join(alone)).rows == {LogRowKind.REQUEST: 3}
    assert read(head + b"".join(rows[1:3])).rows == {LogRowKind.REQUEST: 2}  # without their parent


def test_jtl_without_header_uses_default_or_recorded_columns(way: str) -> None:
    old = jtl.capture("2.13--embedded")
    jtl.same(jtl.reported(read(old)), slow.figures(slow.rows(old, columns=slow.COLUMNS_2.split())))
    data = jtl.capture("5.6.3--csv_noheader")
    header = lines("5.6.3--locale_de")[0].decode().strip().split(",")
    expected = slow.figures(slow.rows(data, columns=header))
    jtl.same(jtl.reported(read(data, properties=NO_HEADER)), expected)
    jtl.same(jtl.reported(read(data)), expected)


def test_jtl_columns_without_header_come_from_properties() -> None:
    rows = b"".join(row for row in lines("5.6.3--csv_few_columns")[1:])
    save = "jmeter.save.saveservice."
    off = (
        "thread_name", "thread_counts", "data_type", "assertion_results_failure_message", "sent_bytes", "url",
        "latency", "idle_time", "connect_time", "response_message",
    )  # fmt: skip
    summary = read(rows, properties={save + name: "false" for name in off})
    assert jtl.reported(summary) == jtl.reported(read(jtl.capture("5.6.3--csv_few_columns")))
    with pytest.raises(ParseError):
        read(rows, properties=NO_HEADER)


@pytest.mark.parametrize("separator", ["\t", ";", "|"])
def test_jtl_with_tab_semicolon_or_bar_as_separator_is_read(separator: str, way: str) -> None:
    tabs = jtl.capture("5.6.3--csv_tab")
    jtl.same(jtl.reported(read(tabs)), slow.figures(slow.requests(slow.rows(tabs, "\t"))))
    data = jtl.capture(MULTI)  # no field of it holds any of these
    assert jtl.reported(read(data.replace(b",", separator.encode()))) == jtl.reported(read(data))


def test_jtl_bom_and_crlf_are_ignored(way: str) -> None:
    data = jtl.capture(MULTI)
    assert jtl.reported(read(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))) == jtl.reported(read(data))


@pytest.mark.fault(29)
def test_jtl_truncated_last_line_is_reported_with_its_number(way: str) -> None:
    data = jtl.capture("5.6.3--sigkill")
    summary = read(data)
    assert summary.total().attempts == 1947
    assert [(d.name, d.line) for d in summary.damage] == [("torn", 1949)]
    whole = jtl.capture(MULTI)
    torn = read(whole[:-1])  # all fields are there, but was the last one `0` or the beginning of `01`?
    assert (torn.total().attempts, torn.damage_counts) == (599, {"torn": 1})


@pytest.mark.fault(29)
def test_jtl_unclosed_quote_is_a_truncated_row_at_the_end_and_refused_elsewhere() -> None:
    head, first, *rest = lines("5.1.1--messages")
    cut = head + first + b"".join(rest)[: b"".join(rest).index(b'second ""quoted""')]
    summary = read(cut)
    assert (summary.total().attempts, summary.damage[0].line) == (1, 3)
    rows = lines()
    rows[301] = rows[301].replace(b"OK", b'"OK')
    with pytest.raises(ParseError, match=r"out\.jtl:302: a quote that is opened here is never closed"):
        read(b"".join(rows))


@pytest.mark.fault(29)
def test_jtl_repeated_header_is_not_a_row(way: str) -> None:
    head, *rows = lines(MULTI)
    summary = read(b"".join([head, *rows[:300], head, *rows[300:]]))
    assert summary.total().attempts == 600
    assert [(d.name, d.line) for d in summary.damage] == [("header", 302)]


def test_jtl_with_columns_that_change_midway_is_refused_with_the_line_number(way: str) -> None:
    with pytest.raises(ParseError, match=r"out\.jtl:38: 15 fields where 17 columns are expected"):
        read(jtl.capture("5.6.3--csv_appended_two_formats"))
    joined = jtl.capture(MULTI) + jtl.capture("5.6.3--csv_few_columns")
    with pytest.raises(ParseError, match=r"out\.jtl:602: another header: a run with other columns"):
        read(joined)


@pytest.mark.fault(29)
def test_jtl_nul_bytes_between_rows_are_skipped_and_within_rows_reported(way: str) -> None:
    rows = lines()
    between = b"".join([*rows[:10], b"\0" * 4096, *rows[10:]])
    summary = read(between)
    assert summary.total().attempts == 600
    assert [(d.name, d.line) for d in summary.damage] == [("nul", 11)]
    inside = b"".join([*rows[:10], rows[10][:40] + b"\0" * 512 + rows[13][60:], *rows[14:]])
    damaged = read(inside)
    assert damaged.total().attempts == 596
    assert [(d.name, d.line) for d in damaged.damage] == [("nul", 11)]
    assert "not counted" in damaged.damage[0].message
    ended = read(b"".join(rows) + b"\0" * 100)
    assert (ended.total().attempts, ended.damage_counts) == (600, {"nul": 1})


def test_jtl_that_begins_with_nul_bytes_after_truncation_is_read() -> None:
    summary = read(b"\0" * 3000 + b"".join(lines("2.13--embedded")))
    assert (summary.total().attempts, summary.damage_counts) == (20, {"nul": 1})


def test_jtl_empty_lines_are_ignored(way: str) -> None:
    rows = lines()
    assert jtl.reported(read(b"".join([*rows[:5], b"\n", *rows[5:], b"\n\n"]))) == jtl.reported(read(b"".join(rows)))


def test_jtl_labels_that_are_not_utf_8_are_kept_and_reported(way: str) -> None:
    data = jtl.capture(MULTI).replace(b",home,", ",größe,".encode("latin-1"))
    summary = read(data)
    assert "gr\\xf6\\xdfe" in summary.labels
    assert summary.damage[0][:2] == ("encoding", 2)


def test_jtl_aggregated_rows_give_counts_but_no_times() -> None:
    head, *rows = lines("5.6.3--csv_all_columns")
    ok = next(row for row in rows if b",ok,200," in row)
    several = ok.replace(b",UTF-8,1,0,", b",UTF-8,50,3,")
    assert several != ok
    summary = read(head + ok + several)
    total = summary.total()
    assert summary.rows == {LogRowKind.REQUEST: 1, LogRowKind.AGGREGATE: 1}
    assert (total.attempts, total.ok, total.errors, total.latency.count) == (51, 48, 3, 1)
    with pytest.raises(ParseError, match=r"out\.jtl:2: the row here stands for several"):
        read(head + ok.replace(b",UTF-8,1,0,", b",UTF-8,2,3,"))


STAMPED = b"timeStamp,elapsed,label,responseCode,success\n"


def test_jtl_status_of_an_error_counts_even_if_an_assertion_accepts_it(way: str) -> None:
    rows = [b"1795213331189,20,a,%d,%s\n" % pair for pair in ((200, b"true"), (404, b"true"), (503, b"false"))]
    other = b"1795213331189,20,a,200,false\n"
    assert read(STAMPED + b"".join(rows) + other).total().outcomes == {"ok": 1, "errors_status": 2, "errors_other": 1}


def test_jtl_text_time_stamps_are_read(way: str) -> None:
    rows = b"2026/11/20 22:16:37.649,20,a,200,true\n2026/11/20 22:16:38.001,5,a,200,true\n"
    summary = read(STAMPED + rows)
    assert summary.duration_s == pytest.approx(0.357)
    assert summary.damage_counts == {"local_time": 1}
    pattern = {"jmeter.save.saveservice.timestamp_format": "dd.MM.yyyy HH:mm:ss.SSS"}
    assert read(STAMPED + b"20.11.2026 22:16:37.649,20,a,200,true\n", properties=pattern).first_start_us == (
        summary.first_start_us
    )


@pytest.mark.fault(29)
@pytest.mark.parametrize(
    ("rows", "line", "why"),
    [
        (b"2026/11/20 22:16:37,20,a,200,true\n", 2, "timeStamp"),
        (b"11/20/26 22:16:37,20,a,200,true\n", 2, "timeStamp"),
        (b"2026/02/30 22:16:37.649,20,a,200,true\n", 2, "timeStamp"),
        (b"2026/10/25 02:59:59.999,5,a,200,true\n2026/10/25 02:00:00.100,5,a,200,true\n", 3, "daylight"),
        (b"1795213,20,a,200,true\n", 2, "13 digits"),
        (b"1795213331189,20,a,200,true\n1695213331189,20,a,200,true\n", 3, "30 days"),
        (b"1795213331189,-1,a,200,true\n", 2, "elapsed"),
        (b"1795213331189,1.5,a,200,true\n", 2, "elapsed"),
        ("1795213331189,９,a,200,true\n".encode(), 2, "elapsed"),
        (b"1795213331189,20,a,200,yes\n", 2, "success"),
        (b"1795213331189,20,a,200,true\n1795,213331189,20,a,200,true\n", 3, "6 fields"),
        (b"1795213331189,20,a,200,true\n1795213331\n", 3, "1 fields"),
        (b'1795213331189,20,"a"b,200,true\n', 2, "quoting"),
    ],
)
def test_jtl_malformed_rows_are_refused_with_the_line_number(rows: bytes, line: int, why: str, way: str) -> None:
    with pytest.raises(ParseError, match=why) as error:
        read(STAMPED + rows)
    assert (error.value.tool, error.value.file, error.value.line) == ("jmeter", "out.jtl", line)


NOT_BEGUN = b"0,0,a,,false\n"


def test_jtl_sample_that_never_began_is_an_error_and_in_no_other_number(way: str) -> None:
    rows = b"1795213331189,20,a,200,true\n" + NOT_BEGUN + b"1795213331300,100,a,200,true\n"
    summary = read(STAMPED + rows)
    assert (summary.total().attempts, summary.duration_s) == (2, pytest.approx(0.211))
    assert summary.damage_counts == {"not_begun": 1} and summary.damage[0].line == 3
    found = values(base.load_tool("jmeter").parse(ToolOutput(STAMPED + rows)))
    assert (found["requests", "count"], found["ok", "count"]) == (2, 2)
    assert found["errors", "count"] == found["errors_other", "count"] == 1 and found["latency", "min"] == 0.02


@pytest.mark.parametrize("row", [b"0,0,a,200,false\n", b"0,0,a,,true\n"])
def test_jtl_sample_at_time_0_with_an_answer_is_refused(row: bytes, way: str) -> None:
    with pytest.raises(ParseError, match="timeStamp is 0, but the sample has an answer"):
        read(STAMPED + b"1795213331189,20,a,200,true\n" + row)


def test_jtl_duration_is_right_for_time_stamps_of_starts_and_of_ends() -> None:
    rows = b"1795213331189,20,a,200,true\n1795213331300,100,a,200,true\n"
    ends = read(STAMPED + rows, properties={"sampleresult.timestamp.start": "false"})
    assert ends.duration_s == pytest.approx(0.131)
    assert read(STAMPED + rows).duration_s == pytest.approx(0.211)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        b"\n\n",
        b"hello\nworld\n",
        b"x\n",
        b"timeStamp,elapsed,lab",
        b"timeStamp,elapsed,label\n1795213331189,20,a\n",
        b"timeStamp,elapsed,elapsed,success\n",
        b"<html><body>502</body></html>",
        b"<!DOCTYPE html>\n<html>",
        b"\xff\xfet\0i\0m\0e\0",
        b"Running 2s test @ http://127.0.0.1/\n  2 threads and 10 connections\n",
        b"starttime\tseconds\tctime\tdtime\tttime\twait\n",
        b"PK\x03\x04\x14\0\0\0",
    ],
)
def test_jtl_csv_reader_refuses_other_files(data: bytes) -> None:
    with pytest.raises(ParseError) as error:
        read(data)
    assert (error.value.tool, error.value.file) == ("jmeter", "out.jtl")


def test_jtl_of_a_header_without_rows_has_no_requests() -> None:
    summary = read(lines()[0])
    assert jtl.reported(summary) == slow.figures([])
    assert summary.per_second_counts() == []


def test_jtl_connection_that_timed_out_is_a_timeout() -> None:
    head = b"timeStamp,elapsed,label,responseCode,responseMessage,success\n"
    failed = b"Non HTTP response code: java.net.ConnectException,Non HTTP response message: "
    rows = [b"1700000000000,9,a," + failed + printed for printed in (b"Connection timed out,false", b"refused,false")]
    assert summarise(head + b"\n".join([*rows, b""]), "jmeter").total().outcomes == {
        "errors_timeout": 1,
        "errors_connect": 1,
    }


@pytest.mark.parametrize(("elapsed_ms", "attempts"), [(10, 1), (11, 1), (13, 2)])
def test_jtl_sub_result_ends_with_its_parent_but_for_rounding(elapsed_ms: int, attempts: int) -> None:
    head = "timeStamp,elapsed,label,responseCode,success,threadName\n"
    rows = f"1700000000000,10,a,200,true,t 1\n1700000000000,{elapsed_ms},a-0,200,true,t 1\n"
    assert summarise((head + rows).encode(), "jmeter").total().attempts == attempts


def test_jtl_aggregated_rows_count_in_their_second_and_have_no_status() -> None:
    head = b"timeStamp,elapsed,label,responseCode,success,SampleCount,ErrorCount\n"
    rows = [(0, 200, b"true", 1, 0), (50, 200, b"true", 1, 0), (100, 503, b"false", 1, 1)]
    rows += [(200, 200, b"true", 50, 3), (1300, 200, b"true", 7, 0)]
    summary = read(head + b"".join(b"%d,20,a,%d,%s,%d,%d\n" % (1795213331000 + row[0], *row[1:]) for row in rows))
    assert summary.per_second_counts() == [(0, 53, 49, 4), (1, 7, 7, 0)]
    total = summary.total()
    assert (total.attempts, total.answered, total.ok, total.errors) == (60, 60, 56, 4)
    assert total.classes == {0: 57, 2: 2, 5: 1} and total.outcomes["errors_other"] == 3


def test_jtl_without_a_column_success_is_judged_by_its_status(way: str) -> None:
    rows = b"".join(b"1795213331189,20,a,%d\n" % status for status in (100, 200, 302, 399, 404, 500, 503))
    total = read(b"timeStamp,elapsed,label,responseCode\n" + rows).total()
    assert total.outcomes == {"ok": 3, "errors_status": 3, "errors_other": 1}


def exported(data: bytes) -> bytes:
    """Return a JTL as a German spreadsheet exports it."""
    text = data.decode().replace(",", ";").replace(";true;", ";WAHR;").replace(";false;", ";FALSCH;")
    return b"sep=;\r\n" + "".join(f"{line};;;\r\n" for line in text.splitlines()).encode()


def test_export_of_a_spreadsheet_is_read(way: str) -> None:
    data = jtl.capture("5.6.3--csv_https")
    jtl.same(jtl.reported(read(exported(data))), jtl.reported(read(data)))
    report = base.parse_output(base.load_tool("jmeter"), ToolOutput(exported(data)))
    assert report.measurements == base.parse_output(base.load_tool("jmeter"), ToolOutput(data)).measurements


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (";264;", ";264,0;", "elapsed is not a whole number: '264,0'"),
        ("1795213013466", "1795213013466,0", "timeStamp is not milliseconds since 1970 (13 digits): '1795213013466,0'"),
        ("1795213013466", "1,79521E+12", "timeStamp is not milliseconds since 1970 (13 digits): '1,79521E+12'"),
        (
            "1795213013466",
            "20.11.2026 19:36",
            "timeStamp is not milliseconds since 1970 (13 digits): '20.11.2026 19:36'",
        ),
    ],
)
def test_number_changed_by_a_spreadsheet_is_refused_with_its_line(old: str, new: str, reason: str) -> None:
    data = exported(jtl.capture("5.6.3--csv_https")).decode().replace(old, new, 1).encode()
    with pytest.raises(ParseError) as raised:
        read(data)
    assert raised.value.line == 3
    hint = "a spreadsheet may have changed it: read the file that JMeter wrote, or export times as whole numbers"
    assert raised.value.reason == f"{reason}; {hint}"


def test_two_columns_of_one_name_are_refused_below_the_line_of_the_separator() -> None:
    data = exported(jtl.capture("5.6.3--csv_https")).replace(b"elapsed;label", b"elapsed;elapsed")
    with pytest.raises(ParseError, match=r"out\.jtl:2: a column occurs twice"):
        read(data)
