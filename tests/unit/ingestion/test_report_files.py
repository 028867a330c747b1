"""A file with several text reports is split at their first lines, byte for byte, or not at all."""

from __future__ import annotations

import pytest

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
