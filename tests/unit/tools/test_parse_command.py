"""`loadbook parse`: rows on stdout or nothing; doubts and errors on stderr; exit 0, 2 or 4."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from command_line import exit_code
from loadbook.cli.data import _measurement_record
from loadbook.ingestion.captured import find_argv, read_folder
from loadbook.tools.base import Measurement
from tool_captures import FIXTURES


class Shown(NamedTuple):
    """What a call of the command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Shown]:
    """`run(*words)` calls `loadbook parse`."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*words: str | Path) -> Shown:
        code = exit_code(monkeypatch, "parse", *map(str, words))
        return Shown(code, *capsys.readouterr())

    return call


def folder(tmp_path: Path, tool: str, case: str) -> Path:
    for path in (FIXTURES / tool).glob(f"*--{case}.*"):
        if path.suffix != ".json":
            shutil.copy(path, tmp_path / path.suffix[1:])
    return tmp_path


def test_parse_command_with_json_prints_an_array_of_rows_with_integer_counts(
    tmp_path: Path, run: Callable[..., Shown]
) -> None:
    displayed = run("wrk", folder(tmp_path, "wrk", "nofile_64"), "--json")
    rows = json.loads(displayed.stdout)
    assert displayed.returncode == 0 and displayed.stderr.startswith("doubt: connections: 141 connects failed")
    assert {tuple(row) for row in rows} == {("metric", "statistic", "value", "unit", "text", "resolution")}
    assert rows[0] == {"metric": "requests", "statistic": "count", "value": 121269, "unit": "1", "text": "121269"} | {
        "resolution": None
    }
    assert '"value": 121269,' in displayed.stdout and "NaN" not in displayed.stdout


def test_parse_command_reads_a_single_file_and_prints_a_table(run: Callable[..., Shown]) -> None:
    displayed = run("httperf", FIXTURES / "httperf" / "0.9.0--r8000_n40000.stdout")
    assert displayed.returncode == 0 and not displayed.stderr
    assert "offered_per_s" in displayed.stdout and "40,000" in displayed.stdout


def test_parse_command_prints_an_80_column_table_with_printed_and_converted_values(run: Callable[..., Shown]) -> None:
    displayed = run("wrk2", FIXTURES / "wrk2" / "4.0.0--R2000_d14_latency.stdout")
    lines = [re.split(r"  +", line.strip()) for line in displayed.stdout.splitlines()]
    assert displayed.returncode == 0 and all(len(line.rstrip()) <= 80 for line in displayed.stdout.splitlines())
    assert lines[0] == ["metric", "statistic", "value", "in base units", "as printed"]
    assert ["latency_intended", "p99.9", "5.91 ms", "0.00591 s", "5.91ms"] in lines
    assert ["bytes_read", "count", "6.3 MiB", "6658457.6 B", "6.35MB"] in lines
    assert ["ok_per_s", "value", "1,997 /s", "1996.83 1/s", "derived"] in lines


def test_parse_command_prints_small_times_without_exponent(tmp_path: Path, run: Callable[..., Shown]) -> None:
    displayed = run("ab", folder(tmp_path, "ab", "csv_gnuplot"))
    assert displayed.returncode == 0 and "0.00003 s" in displayed.stdout and "e-05" not in displayed.stdout


@pytest.mark.parametrize(
    ("tool", "case", "says"),
    [
        ("wrk", "usage_badopt", "printed its usage.*exit code 1.*invalid option"),
        ("wrk", "sigkill_truncated", "empty: the tool was killed.*137"),
        ("wrk", "ssh_tty_killed", "report is not complete"),
        ("httperf", "slow_ms", "no report of httperf"),
    ],
)
def test_parse_command_without_a_report_exits_with_4_and_prints_nothing(
    tmp_path: Path, tool: str, case: str, says: str, run: Callable[..., Shown]
) -> None:
    there = folder(tmp_path, "wrk", case)
    displayed = run(tool, there, "--json")
    assert (displayed.returncode, displayed.stdout) == (4, "")
    assert str(there / "stdout") in displayed.stderr and "Traceback" not in displayed.stderr
    assert re.search(says, displayed.stderr)


def test_parse_command_on_a_folder_without_stdout_reads_each_of_its_files(
    tmp_path: Path, run: Callable[..., Shown]
) -> None:
    report = (FIXTURES / "wrk" / "4.1.0--tls.stdout").read_bytes()
    (tmp_path / "run-10.txt").write_bytes(report)
    (tmp_path / "run-2.txt").write_bytes(report)
    displayed = run(tmp_path, "--json")
    assert list(dict.fromkeys(row["report"] for row in json.loads(displayed.stdout))) == ["run-2.txt", "run-10.txt"]
    (tmp_path / "stdout-driver1").write_bytes(b"")
    displayed = run("wrk", tmp_path)
    assert (displayed.returncode, displayed.stdout) == (4, "")
    assert f"{tmp_path / 'stdout-driver1'}: empty" in displayed.stderr


def test_parse_command_with_wrong_arguments_exits_with_2(tmp_path: Path, run: Callable[..., Shown]) -> None:
    assert run("nope", tmp_path).returncode == 2
    assert re.search("known tools: .*httperf.*wrk", run("nope", tmp_path).stderr)
    assert run("wrk", tmp_path / "absent").returncode == 2
    assert run("wrk", tmp_path / ("a" * 300)).returncode == 2


def test_parse_command_finds_the_tools_command_line_inside_shell_and_ssh_commands() -> None:
    assert find_argv("ulimit -n 64; wrk -t2 'http://h/?a=1&b=2'", "wrk") == ("wrk", "-t2", "http://h/?a=1&b=2")
    assert find_argv("ssh -tt driver 'cd x && /usr/bin/wrk -t2 http://h/'", "wrk") == (
        "/usr/bin/wrk",
        "-t2",
        "http://h/",
    )
    assert find_argv("ulimit -n 32; /src/bin/weighttp05 -n 10 http://h/", "weighttp")[1:] == ("-n", "10", "http://h/")
    assert find_argv("/src/bin/wrk2 -R10 http://h/", "wrk") == ()
    assert find_argv("echo 'unclosed", "wrk") == find_argv("", "wrk") == ()


def test_parse_command_on_a_folder_reads_all_its_files(tmp_path: Path) -> None:
    for name, text in (
        ("stdout", "o"),
        ("stderr", "e"),
        ("rc", "137\n"),
        ("cmd", "wrk -d1s"),
        ("wall", "1"),
        ("extra.tsv", "x"),
    ):
        (tmp_path / name).write_text(text)
    read, command = read_folder(tmp_path)
    assert (read.stdout, read.stderr, read.exit_code) == (b"o", b"e", 137)
    assert find_argv(command, "wrk") == ("wrk", "-d1s")
    assert read.files == {"extra.tsv": b"x"}


def test_parse_command_with_json_prints_values_without_floating_point_noise(
    tmp_path: Path, run: Callable[..., Shown]
) -> None:
    text = (FIXTURES / "wrk" / "4.1.0--slow_ms.stdout").read_text().replace(" 50%  126.12ms", " 50%  218.37us")
    (tmp_path / "wrk.txt").write_text(text)
    assert '"value": 0.00021837,' in run("wrk", tmp_path / "wrk.txt", "--json").stdout


def test_parse_command_with_json_prints_whole_numbers_of_the_report_as_integers() -> None:
    printed = _measurement_record(Measurement("bytes_per_s", "value", 23552, "B/s", "23.00KB"))["value"]
    assert printed == 23552 and isinstance(printed, int)


def test_parse_command_names_the_real_file_and_its_own_argument(tmp_path: Path, run: Callable[..., Shown]) -> None:
    table = FIXTURES / "locust/2.47.0--clean_csv.out_stats.csv"
    (tmp_path / "mine.csv").write_bytes(table.read_bytes())
    shown = run(tmp_path / "mine.csv")
    assert "last_flush: mine.csv is the state of Locust's last flush" in " ".join(shown.stderr.split())
    (tmp_path / "other.txt").write_text("no report\n")
    assert "say which by --tool (loadbook parse TOOL FILE)" in " ".join(run(tmp_path / "other.txt").stderr.split())
