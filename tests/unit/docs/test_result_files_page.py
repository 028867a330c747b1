"""docs/result-files.md: which files of each tool are read and which are not, checked on captures of the tools."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from loadbook.core.errors import DataError, ParseError
from loadbook.ingestion.recognise import find_reports
from loadbook.tools import base
from loadbook.tools.base import ToolOutput

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/result-files.md").read_text()
TABLE, SEVERAL = PAGE.split("## Which files are read")[1].split("## Several reports in one file")
ROWS = {
    tool: [cell.strip() for cell in cells.split("|")]
    for tool, cells in re.findall(r"^\| \[(\w+)\]\(.*?\) \|(.*)\|$", TABLE, re.MULTILINE)
}
CAPTURES = ROOT / "tests/fixtures"

# tool, capture, words of its cell "read"
READ = [
    ("ab", "2.3--n20000_c50.stdout", "text"),
    ("artillery", "2.0.21--clean_both.result", "`--output`"),
    ("artillery", "2.0.21--clean_text.stdout", "text"),
    ("autocannon", "9.0.0--clean_json.stdout", "`--json`"),
    ("autocannon", "9.0.0--clean_text.stderr", "table on stderr"),
    ("bombardier", "1.2.6--clean_json.stdout", "JSON"),
    ("bombardier", "1.2.6--clean_text.stdout", "text"),
    ("fortio", "1.66.5--rate_both.result", "`-json`"),
    ("fortio", "1.66.5--clean_text.stderr", "text"),
    ("gatling", "3.14.9--closed_text.stdout", "summary"),
    ("gatling", "3.10.5--closed_both.global_stats", "without percentiles"),
    ("h2load", "1.52.0--h1_n20000.stdout", "text"),
    ("hey", "0.1.5--clean_text.stdout", "text"),
    ("hey", "0.1.5--count_csv.stdout", "CSV"),
    ("httperf", "0.9.0--r8000_n40000.stdout", "text"),
    ("jmeter", "5.6.3--csv_all_columns.out.jtl", "CSV"),
    ("jmeter", "5.6.3--xml_10x20.out.jtl", "XML"),
    ("k6", "1.8.1--clean_closed.summary", "`--summary-export`"),
    ("k6", "1.8.1--handle_summary.stdout", "`handleSummary`"),
    ("k6", "1.8.1--points_csv.points.csv", "`--out csv=FILE`"),
    ("k6", "1.8.1--points_json.points", "`json=FILE`"),
    ("k6", "1.8.1--text.stdout", "text; before 0.31"),
    ("locust", "2.47.0--clean_json.stdout", "`--json`"),
    ("oha", "1.16.0--clean_json.stdout", "JSON"),
    ("locust", "2.47.0--clean_csv.out_stats.csv", "`_stats.csv`"),
    ("locust", "2.47.0--clean_csv.stderr", "table at its end"),
    ("oha", "1.16.0--clean_text.stdout", "text"),
    ("oha", "1.16.0--count_csv.stdout", "CSV"),
    ("siege", "3.0.8--shared.stdout", "text"),
    ("siege", "4.0.7--shared.stdout", "JSON of `-j`"),
    ("vegeta", "12.13.0--gob.stdout", "results of `vegeta attack`"),
    ("vegeta", "12.13.0--clean_text.results.csv", "`vegeta encode`"),
    ("vegeta", "12.13.0--clean_text.report", "`vegeta report`, text and JSON"),
    ("vegeta", "12.13.0--every_text.stdout", "`vegeta report`, text and JSON"),
    ("weighttp", "0.4--plain_n20000_c50_t2.stdout", "text"),
    ("weighttp", "0.5--plain_n20000_c50_t2.stdout", "0.5"),
    ("wrk", "4.1.0--tls.stdout", "text"),
    ("wrk2", "4.0.0--R2000_d14_latency.stdout", "text"),
]
# tool, capture, words of its cell "not read", words of the reason that loadbook gives
NOT_READ = [
    ("ab", "2.3--html_w.stdout", "HTML of `-w`", "HTML of ab -w"),
    ("ab", "2.3--csv_tsv_n300.pct.csv", "alone", "no report of ab"),
    ("h2load", "1.52.0--logfile.req.log", "alone", "no report of h2load"),
    ("jmeter", "5.6.3--summariser_2s.stdout", "text of the console", "without single samples"),
    ("vegeta", "12.13.0--hist.stdout", "histogram", "only a distribution"),
]
# tool, capture that begins as every report
SPLIT = [
    ("ab", "2.3--n20000_c50.stdout"),
    ("artillery", "2.0.21--clean_text.stdout"),
    ("autocannon", "9.0.0--clean_text.stderr"),
    ("bombardier", "1.2.6--clean_text.stdout"),
    ("fortio", "1.66.5--clean_text.stderr"),
    ("h2load", "1.52.0--h1_n20000.stdout"),
    ("hey", "0.1.5--clean_text.stdout"),
    ("httperf", "0.9.0--r8000_n40000.stdout"),
    ("k6", "1.8.1--text.stdout"),
    ("oha", "1.16.0--clean_text.stdout"),
    ("siege", "3.0.8--shared.stdout"),
    ("vegeta", "12.13.0--every_text.stdout"),
    ("weighttp", "0.4--plain_n20000_c50_t2.stdout"),
    ("weighttp", "0.5--plain_n20000_c50_t2.stdout"),
    ("wrk", "4.1.0--tls.stdout"),
    ("wrk2", "4.0.0--R2000_d14_latency.stdout"),
]


def metrics(tool: str, path: Path) -> Sequence[tuple[str, str]]:
    """Return (metric, statistic) of each number that `loadbook parse` prints."""
    (found,) = find_reports(path, tool)
    if found.parsed is None:
        raise ParseError(tool, str(path), 0, found.error)
    return [row[:2] for row in found.measurements]


def test_result_files_page_has_a_row_for_every_tool_that_is_read() -> None:
    assert list(ROWS) == base.tool_names()
    assert {tool for tool, *_ in READ} == set(ROWS)


@pytest.mark.parametrize(("tool", "capture", "words"), READ)
def test_result_files_page_names_files_that_are_read(tool: str, capture: str, words: str) -> None:
    assert metrics(tool, CAPTURES / tool / capture)
    assert words in ROWS[tool][0]


@pytest.mark.parametrize(("tool", "capture", "words", "reason"), NOT_READ)
def test_result_files_page_names_files_that_are_not_read(tool: str, capture: str, words: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        metrics(tool, CAPTURES / tool / capture)
    assert words in ROWS[tool][1]


@pytest.mark.parametrize(
    ("tool", "files", "percentile"),
    [
        ("ab", {"2.3--csv_tsv_n300.stdout": "stdout", "2.3--csv_tsv_n300.pct.csv": "pct.csv"}, "p66"),
        (
            "h2load",
            {"1.52.0--logfile.stdout": "stdout", "1.52.0--logfile.cmd": "cmd", "1.52.0--logfile.req.log": "req.log"},
            "p99",
        ),
    ],
)
def test_files_beside_the_text_are_read_in_a_folder(
    tool: str, files: dict[str, str], percentile: str, tmp_path: Path
) -> None:
    for capture, name in files.items():
        shutil.copy(CAPTURES / tool / capture, tmp_path / name)
    assert ("latency", percentile) in metrics(tool, tmp_path)


@pytest.mark.parametrize(("tool", "capture"), SPLIT)
def test_log_with_several_reports_is_read_report_by_report(tool: str, capture: str, tmp_path: Path) -> None:
    assert tool in SEVERAL
    data = (CAPTURES / tool / capture).read_bytes()
    (tmp_path / "all.log").write_bytes(data * 3)
    with pytest.raises(ParseError, match=r"two reports in one|two in one output"):
        base.load_tool(tool).parse(ToolOutput(data * 3))
    (whole,) = find_reports(CAPTURES / tool / capture, tool)
    assert whole.measurements
    for number in (1, 2, 3):
        (one,) = find_reports(tmp_path / f"all.log#{number}", tool)
        assert one.measurements == whole.measurements
    with pytest.raises(DataError, match=r"all\.log has 3 reports, none with the number 4"):
        find_reports(tmp_path / "all.log#4", tool)


def test_log_of_several_tools_is_read_report_by_report(tmp_path: Path) -> None:
    data = [(CAPTURES / tool / capture).read_bytes() for tool, capture in SPLIT]
    (tmp_path / "all.log").write_bytes(b"started by me\n" + b"\n".join(data))
    for number, (tool, _) in enumerate(SPLIT, 1):
        (tmp_path / "one.log").write_bytes(data[number - 1] + b"\n\n")  # as in the log, something is behind it
        assert metrics(tool, tmp_path / f"all.log#{number}") == metrics(tool, tmp_path / "one.log"), tool
