"""A file with several text reports is split at their first lines, byte for byte, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from loadbook.ingestion.recognise import find_reports
from loadbook.ingestion.report_files import split_reports
from tool_captures import FIXTURES


def test_log_whose_first_report_lost_its_first_line_is_not_split() -> None:
    data = (FIXTURES / "wrk/4.1.0--tls.stdout").read_bytes()
    assert split_reports(b"\xef\xbb\xbf" + data + b"\x1b[32m" + data) == [
        b"\xef\xbb\xbf" + data,
        b"\x1b[32m" + data,
    ]
    assert len(split_reports(b"httperf --server x --rate 5\n" + data * 2)) == 2
    with pytest.raises(ValueError, match="report 1 has the end of another one, whose first line is missing"):
        split_reports(data.split(b"\n", 1)[1] + data * 2)


@pytest.mark.parametrize("data", [b"", b"no report\n", b"\r\r\n\n", b"one\rtwo", b"\xff\n\x00"])
def test_file_without_a_known_first_line_is_one_report(data: bytes) -> None:
    assert split_reports(data) == [data]


JSON_REPORTS = {
    "autocannon": "9.0.0--clean_json",
    "bombardier": "1.2.6--clean_json",
    "locust": "2.47.0--clean_json",
    "oha": "1.16.0--clean_json",
    "vegeta": "12.13.0--clean_json",
}


@pytest.mark.parametrize("tool", JSON_REPORTS)
def test_log_with_several_reports_in_json_is_split(tool: str) -> None:
    data = (FIXTURES / tool / f"{JSON_REPORTS[tool]}.stdout").read_bytes().rstrip(b"\n") + b"\n"
    wrk = (FIXTURES / "wrk/4.1.0--tls.stdout").read_bytes()
    assert split_reports(b"started\n" + data * 3) == [b"started\n" + data, data, data]
    assert split_reports(wrk + data + wrk) == [wrk, data, wrk]


def test_json_behind_the_text_of_the_same_tool_belongs_to_it() -> None:
    text = (FIXTURES / "fortio/1.66.5--clean_text.stderr").read_bytes()
    document = (FIXTURES / "fortio/1.66.5--clean_json.stdout").read_bytes()
    assert len(split_reports(text + document)) == 1
    assert len(split_reports((text + document) * 3)) == 3


@pytest.mark.parametrize(
    "names",
    [
        ("locust/2.47.0--clean_csv.stderr", "locust/2.47.0--throughput_csv.stderr"),
        ("gatling/3.10.5--closed_both.stdout", "gatling/3.10.5--closed_both.stdout"),
        ("wrk/4.1.0--tls.stdout", "locust/2.47.0--clean_csv.stderr"),
        ("locust/2.47.0--clean_csv.stderr", "wrk/4.1.0--tls.stdout"),
    ],
)
def test_tables_of_several_runs_are_read_one_by_one(names: Sequence[str], tmp_path: Path) -> None:
    texts = [(FIXTURES / name).read_bytes() for name in names]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_bytes(text)
    (tmp_path / "all.log").write_bytes(b"".join(texts))
    expected = [find_reports(tmp_path / f"{number}.txt")[0].measurements for number in range(len(texts))]
    assert [report.measurements for report in find_reports(tmp_path / "all.log")] == expected
    assert all(expected)


def test_tables_without_first_lines_are_refused_with_what_to_do(tmp_path: Path) -> None:
    table = (FIXTURES / "locust/2.47.0--clean_csv.stderr").read_bytes().partition(b"Type ")
    (tmp_path / "twice.log").write_bytes(b"".join(table[1:]) * 2)
    (tmp_path / "mixed.log").write_bytes(b"".join(table[1:]) + (FIXTURES / "wrk/4.1.0--tls.stdout").read_bytes())
    ((twice,), mixed) = find_reports(tmp_path / "twice.log"), find_reports(tmp_path / "mixed.log")
    assert "two reports in one: split it, a file for each" in twice.error
    assert "or hold one of each: split it, a file for each report" in mixed[0].error
