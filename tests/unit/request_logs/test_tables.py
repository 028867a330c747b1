"""Logs of one line per request (h2load, ab), the store, and summaries of several files and drivers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import jtl_captures as jtl
from loadbook.core.errors import ParseError, ToolError
from loadbook.request_logs import stream
from loadbook.request_logs.read import SCHEMA, RequestWriter, summarise
from loadbook.request_logs.summary import MAX_LABELS, OTHER_LABELS, Summary

H2LOAD = (jtl.FIXTURES / "h2load" / "1.52.0--logfile.req.log").read_bytes()
AB = (jtl.FIXTURES / "ab" / "2.3--csv_tsv_n300.plot.tsv").read_bytes()


def columns(data: bytes, first: int = 0) -> list[list[str]]:
    return [line.split("\t") for line in data.decode().splitlines()[first:]]


def test_h2load_log_statistics_are_exact() -> None:
    rows = [tuple(map(int, row)) for row in columns(H2LOAD)]
    summary = summarise(H2LOAD, "h2load")
    total = summary.total()
    times = sorted(duration for _, _, duration in rows)
    assert (total.attempts, total.ok, dict(total.classes)) == (500, 500, {2: 500})
    assert total.latency.percentile_s(99) == times[494] / 1e6
    assert total.latency.sum_us == sum(times)
    assert summary.duration_s == (max(s + d for s, _, d in rows) - min(s for s, *_ in rows)) / 1e6


def test_h2load_log_requests_without_response_have_no_time() -> None:
    rows = b"1795212837845653\t200\t283\n1795212837845653\t-1\t9\n1795212837845653\t404\t5\n"
    total = summarise(rows, "h2load").total()
    assert (total.attempts, total.answered, total.ok, total.latency.count) == (3, 2, 1, 2)
    assert total.outcomes == {"ok": 1, "errors_other": 1, "errors_status": 1}


def test_ab_log_rows_have_times_but_no_outcome() -> None:
    rows = columns(AB, 1)
    summary = summarise(AB, "ab")
    total = summary.total()
    assert (total.attempts, total.outcomes["unknown"], total.ok, total.errors, total.error_share) == (
        300,
        300,
        0,
        0,
        None,
    )
    assert total.latency.sum_us == sum(int(row[4]) for row in rows) * 1000
    assert total.first_byte.sum_us == sum(int(row[5]) for row in rows) * 1000
    assert summary.duration_s is None
    assert [n for _, n, _, _ in summary.per_second_counts()] == list(Counter(row[1] for row in rows).values())


@pytest.mark.parametrize("size", [50, 1000])
@pytest.mark.parametrize(("tool", "data"), [("h2load", H2LOAD), ("ab", AB)])
def test_h2load_and_ab_logs_are_read_alike_with_any_block_size(
    tool: str, data: bytes, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = summarise(data, tool)
    monkeypatch.setattr(stream, "BLOCK_BYTES", size)
    assert jtl.reported(summarise(data, tool)) == jtl.reported(whole)


@pytest.mark.parametrize(("tool", "data"), [("h2load", H2LOAD), ("ab", AB)])
def test_truncated_last_line_of_a_log_is_reported_with_its_number(tool: str, data: bytes) -> None:
    summary = summarise(data[:-1], tool)
    assert summary.total().attempts == summarise(data, tool).total().attempts - 1
    assert [(d.name, d.line) for d in summary.damage] == [("torn", data.count(b"\n"))]


@pytest.mark.parametrize("change", [b"", b"1795212837845653\n", b"1795212837845653\t99\t3\n", b"\0\0\n", b"\t\t\t\t\n",
                                    b"1795212837845653\t200\t-3\n", b"1795\t200\t3\n", b"x\ty\tz\n", b"\n",
                                    b"1395212837845653\t200\t3\n", b"1795212837845653\t200\t3\t4\n"])  # fmt: skip
def test_malformed_log_lines_are_refused_with_their_number(change: bytes) -> None:
    lines = H2LOAD.splitlines(keepends=True)
    if not change:
        with pytest.raises(ParseError, match="empty"):
            summarise(b"", "h2load")
        return
    with pytest.raises(ParseError, match=re.escape("req.log:101: ")) as error:
        summarise(b"".join([*lines[:100], change, *lines[100:]]), "h2load", file="req.log")
    assert error.value.tool == "h2load"


@pytest.mark.parametrize("tool", ["h2load", "ab"])
@pytest.mark.parametrize("data", [b"hello", b"hello\nworld\n", b"<html>", jtl.capture("3.3--startup_1x1")])
def test_h2load_and_ab_log_readers_refuse_other_files(tool: str, data: bytes) -> None:
    with pytest.raises(ParseError) as error:
        summarise(data, tool)
    assert (error.value.tool, error.value.line) == (tool, 1)


def test_error_for_a_tool_without_request_log_names_tools_that_have_one() -> None:
    with pytest.raises(ToolError, match="wrk") as error:
        summarise(b"", "wrk")
    assert "h2load" in (error.value.hint or "")


def test_summaries_of_files_and_drivers_add_up_exactly() -> None:
    head, *rows = jtl.capture("5.6.3--locale_de").splitlines(keepends=True)
    whole = summarise(head + b"".join(rows), "jmeter")
    merged = Summary()
    for part in (rows[700:], rows[:100], rows[100:700]):
        merged.merge(summarise(head + b"".join(part), "jmeter"))
    jtl.same(jtl.reported(merged), jtl.reported(whole))
    assert (merged.per_second_counts(), merged.rows) == (whole.per_second_counts(), whole.rows)
    for label, tally in whole.labels.items():
        assert merged.labels[label].latency.cells[1].tolist() == tally.latency.cells[1].tolist()
    torn = summarise(head + rows[0] + b"17", "jmeter")
    torn.merge(torn)
    assert torn.damage_counts == {"torn": 2}


def test_merged_summaries_have_every_request_that_was_not_started_and_every_damage() -> None:
    summary, other = Summary(not_started=2), Summary(not_started=3)
    for number, damaged in ((5, summary), (30, other)):
        damaged.add_damage(stream.Damage("torn", line, "x") for line in range(number))
    summary.merge(other)
    assert (summary.not_started, summary.damage_counts, len(summary.damage)) == (5, {"torn": 35}, 20)


def test_times_to_connect_are_those_of_answered_requests_on_new_connections() -> None:
    head = b"timeStamp,elapsed,label,responseCode,success,Latency,Connect\n"
    rows = [b"1700000000000,10,a,200,true,9,4", b"1700000000001,10,b,200,true,9,0", b"1700000000002,10,a,404,false,9,6"]
    rows += [b"1700000000003,10,a,Non HTTP response code: java.net.SocketException,false,0,3"]
    summary = summarise(head + b"\n".join([*rows, b""]), "jmeter")
    assert summary.total().connect.times_us() == {4000: 1, 6000: 1}
    summary.merge(summarise(head + rows[0] + b"\n", "jmeter"))
    assert summary.total().connect.times_us() == {4000: 2, 6000: 1}


def test_schedule_of_a_log_begins_with_the_request_that_was_least_late_in_any_block() -> None:
    summary = Summary()
    for lateness_us in ([700, 900], [500, 800], [600]):
        size = len(lateness_us)
        summary.add(stream.RequestBatch(
            [""], np.zeros(size, np.int32), np.full(size, 1000), np.zeros(size, np.uint8), np.ones(size, bool),
            np.full(size, 200, np.int16), np.full(size, stream.LogRowKind.REQUEST, np.uint8), 1,
            start_us=np.full(size, 10**15), lateness_us=np.array(lateness_us),
        ))  # fmt: skip
    summary.settle_schedule()
    assert summary.intended.times_us() == {1000: 1, 1100: 1, 1200: 1, 1300: 1, 1400: 1}


def test_labels_beyond_the_first_10000_are_counted_as_one() -> None:
    rows = b"".join(b"1795213331189,%d,label %d,200,true\n" % (n % 7, n) for n in range(MAX_LABELS + 50))
    summary = summarise(b"timeStamp,elapsed,label,responseCode,success\n" + rows, "jmeter")
    assert len(summary.labels) == MAX_LABELS + 1
    assert summary.labels[OTHER_LABELS].attempts == 50
    assert summary.total().attempts == MAX_LABELS + 50


def test_parquet_file_of_requests_has_every_row_and_the_documented_schema(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = tmp_path / "requests" / "trial.parquet"
    with RequestWriter(path) as store:
        figures = summarise(jtl.capture("5.6.3--csv_all_columns"), "jmeter", store=store, driver="one")
        summarise(H2LOAD, "h2load", store=store, driver="two")
        summarise(AB, "ab", store=store, driver="three")
    table = pq.read_table(path)
    assert table.schema.equals(SCHEMA, check_metadata=True)
    rows = table.to_pylist()
    assert Counter(row["driver"] for row in rows) == {"one": 72, "two": 500, "three": 300}
    requests = [row for row in rows if row["driver"] == "one" and row["kind"] == "request"]
    assert Counter(row["outcome"] for row in requests) == figures.total().outcomes
    assert sum(row["elapsed_us"] for row in requests) == figures.total().latency.sum_us
    assert min(row["start_us"] for row in requests) == figures.first_start_us
    assert {row["status"] for row in requests} == {None, 200, 503}
    assert {row["received"] for row in rows if row["driver"] == "two"} == {None}
    first = path.read_bytes()
    with RequestWriter(path) as store:
        for tool, data, driver in (("jmeter", jtl.capture("5.6.3--csv_all_columns"), "one"), ("h2load", H2LOAD, "two"),
                                   ("ab", AB, "three")):  # fmt: skip
            summarise(data, tool, store=store, driver=driver)
    assert path.read_bytes() == first


def test_parquet_file_of_requests_is_removed_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ParseError), RequestWriter(tmp_path / "trial.parquet") as store:
        summarise(H2LOAD + b"broken\n", "h2load", store=store)
    assert list(tmp_path.iterdir()) == []


def test_data_format_page_lists_every_column_of_requests_with_its_type() -> None:
    text = (Path(__file__).parents[3] / "docs" / "data-format.md").read_text().split("### requests")[1].split("###")[0]
    for field in SCHEMA:
        kind = "text" if pa.types.is_dictionary(field.type) else str(field.type)
        assert f"`{field.name}` {kind}{'?' * field.nullable} " in text.replace("\n", " "), field.name


@pytest.mark.parametrize(("status", "answered", "outcome"), [
    (-1, 0, "errors_other"), (100, 1, "errors_other"), (199, 1, "errors_other"), (200, 1, "ok"), (399, 1, "ok"),
    (400, 1, "errors_status"), (599, 1, "errors_status"),
])  # fmt: skip
def test_outcome_of_a_row_of_h2load_is_that_of_its_status(status: int, answered: int, outcome: str) -> None:
    total = summarise(b"1795212837845653\t%d\t283\n" % status, "h2load").total()
    assert (total.attempts, total.answered, total.outcomes) == (1, answered, {outcome: 1})
    assert total.classes == ({status // 100: 1} if answered else {})


def test_log_is_read_from_the_line_after_an_earlier_run() -> None:
    skipped = len(b"".join(H2LOAD.splitlines(keepends=True)[:200]))
    assert summarise(H2LOAD, "h2load", start=skipped).total().attempts == 300


@pytest.mark.parametrize(("days", "refused"), [(29, False), (31, True), (-29, False), (-31, True)])
def test_row_more_than_30_days_from_the_first_is_refused(days: int, refused: bool) -> None:
    rows = b"1795212837845653\t200\t3\n%d\t200\t3\n" % (1795212837845653 + days * 86_400_000_000)
    if refused:
        with pytest.raises(ParseError, match="more than 30 days") as error:
            summarise(rows, "h2load")
        assert error.value.line == 2
    else:
        assert summarise(rows, "h2load").total().attempts == 2


@pytest.mark.parametrize(("apart_s", "rows"), [(3_600, 3_601), (29 * 86_400, 2)])
def test_series_of_requests_that_are_days_apart_has_no_empty_seconds(apart_s: int, rows: int) -> None:
    start = 1_795_213_331_000
    lines = ["timeStamp,elapsed,label,responseCode,success"]
    lines += [f"{start + 1000 * second},7,Home,200,true" for second in (0, apart_s)]
    summary = summarise("".join(f"{line}\n" for line in lines).encode(), "jmeter", file="out.jtl")
    series = summary.per_second_counts()
    assert len(series) == rows and series[0] == (0, 1, 1, 0) and series[-1] == (apart_s, 1, 1, 0)
    assert summary.duration_s == pytest.approx(apart_s + 0.007)
