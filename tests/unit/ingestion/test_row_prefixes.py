"""Rows in CSV and XML lose the prefix of each line, wherever they are read; a prefix is never taken for a column."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from effort import some
from loadbook.ingestion import captured, recognise, row_prefixes
from loadbook.ingestion.recognise import find_reports
from tool_captures import FIXTURES

ROWS = [
    "jmeter/5.6.3--csv_https.out.jtl", "jmeter/5.6.3--csv_noheader.out.jtl", "jmeter/5.6.3--xml_10x20.out.jtl",
    "vegeta/12.13.0--csv.stdout", "k6/1.8.1--points_csv.points.csv", "hey/0.1.5--count_csv.stdout",
    "oha/1.16.0--count_csv.stdout", "locust/2.47.0--clean_csv.out_stats.csv", "locust/2.47.0--history.csv",
]  # fmt: skip
PREFIXES: dict[str, Callable[[int], str]] = {
    "github": lambda n: f"2026-02-11T08:14:{n % 60:02}.{n:07}Z ",
    "journald": lambda n: f"Feb 11 08:14:{n % 60:02} host bench[4711]: ",
    "quote": lambda _: "> ",
    "jenkins": lambda n: f"[2026-02-11T08:14:{n % 60:02}.123Z] ",
    "cri": lambda n: f"2026-02-11T08:14:{n % 60:02}.000000001Z stdout F ",
    "blanks": lambda _: "    ",
    "colours": lambda _: "\x1b[32m",
    "compose with colours": lambda _: "\x1b[36mbench-1  | \x1b[0m",
}


def prefixed(text: str, kind: str) -> bytes:
    lines = text.splitlines()
    if kind == "docker":
        return "".join(f"{json.dumps({'log': line + chr(10), 'stream': 'stdout'})}\n" for line in lines).encode()
    return "".join(f"{PREFIXES[kind](n)}{line}\n" for n, line in enumerate(lines)).encode()


CASES = [(name, kind) for name in ROWS for kind in (*PREFIXES, "docker")]


@pytest.mark.parametrize(("name", "kind"), some(CASES, 26))
def test_prefix_of_rows_is_taken_off(name: str, kind: str, tmp_path: Path) -> None:
    for suffix in (".txt", ".jtl") if name.startswith("jmeter") else (".txt",):
        plain, path = tmp_path / f"plain{suffix}", tmp_path / f"log{suffix}"
        plain.write_bytes((FIXTURES / name).read_bytes())
        path.write_bytes(prefixed(plain.read_text(), kind))
        ((expected,), (found,)) = find_reports(plain), find_reports(path)
        assert expected.measurements == found.measurements != ()
        assert found.taken_off


@pytest.mark.parametrize("name", ROWS)
def test_rows_without_a_prefix_are_not_changed(name: str) -> None:
    text = (FIXTURES / name).read_text()
    assert row_prefixes.without_prefix(text) == (text, [])


@pytest.mark.parametrize("separator", ["|", "\t"])
def test_column_of_times_is_no_prefix(separator: str) -> None:
    text = (FIXTURES / ROWS[1]).read_text().replace(",", separator)
    assert row_prefixes.without_prefix(text) == (text, [])


def test_jtl_with_a_prefix_before_some_lines_is_refused(tmp_path: Path) -> None:
    lines = prefixed((FIXTURES / ROWS[0]).read_text(), "github").splitlines(keepends=True)
    (tmp_path / "out.jtl").write_bytes(b"".join(lines[:-1]) + lines[-1][29:])
    (found,) = find_reports(tmp_path / "out.jtl")
    assert not found.parsed
    assert "the prefix '2026-02-11T08:14:00.0000000Z '" in found.error
    assert "`cut -c30-`" in found.error


@pytest.mark.parametrize("name", ROWS)
def test_large_file_with_a_prefix_is_refused_by_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ("out.jtl" if name.startswith("jmeter") else "out.csv")
    path.write_bytes(prefixed((FIXTURES / name).read_text(), "github"))
    monkeypatch.setattr(captured, "MAX_REPORT_BYTES", 100)
    monkeypatch.setattr(recognise, "MAX_REPORT_BYTES", 100)
    (found,) = find_reports(path)
    assert not found.parsed
    assert "the prefix '2026-02-11T08:14:00.0000000Z ' with the time of each line" in found.error


def test_large_text_is_refused_with_the_way_to_cut_it_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"GET / 200\n" * 100 + (FIXTURES / "wrk/4.1.0--tls.stdout").read_bytes())
    monkeypatch.setattr(captured, "MAX_REPORT_BYTES", 100)
    monkeypatch.setattr(recognise, "MAX_REPORT_BYTES", 100)
    (found,) = find_reports(path)
    assert "bytes, of which at most 100 are read as a text: cut the report out, such as by `grep -n" in found.error
    assert "JTL" not in found.error


@pytest.mark.parametrize("name", ["locust/2.47.0--clean_csv.stderr", "gatling/3.10.5--closed_both.stdout"])
def test_indented_table_is_read(name: str, tmp_path: Path) -> None:
    lines = (FIXTURES / name).read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(("Type ", "=====")))
    (tmp_path / "out.txt").write_text("".join(f"    {line}\n" for line in lines[start:]))
    assert find_reports(tmp_path / "out.txt")[0].measurements == find_reports(FIXTURES / name)[0].measurements
