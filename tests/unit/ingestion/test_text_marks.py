"""Marks of a whole text are taken off without a change of its numbers; what only looks like one stays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from loadbook.ingestion.recognise import find_reports
from loadbook.ingestion.text_marks import without_marks
from tool_captures import FIXTURES

TEXTS = {
    "gatling": "gatling/3.14.9--closed_text.stdout",
    "locust": "locust/2.47.0--clean_csv.stderr",
    "k6": "k6/1.8.1--new_summary.stdout",
    "wrk": "wrk/4.1.0--tls.stdout",
    "artillery as text": "artillery/2.0.21--clean_text.stdout",
    "autocannon": "autocannon/9.0.0--rst_text.stderr",
    "fortio": "fortio/1.66.5--clean_text.stderr",
    "oha": "oha/1.16.0--clean_text.stdout",
    "httperf": "httperf/0.9.0--r8000_n40000.stdout",
}
DOCUMENTS = {
    "artillery": "artillery/2.0.21--clean_both.result",
    "fortio": "fortio/1.66.5--clean_json.stdout",
    "locust": "locust/2.47.0--clean_json.stdout",
    "k6": "k6/1.8.1--clean_closed.summary",
}
CAPTURES = {**TEXTS, **{f"{tool} in JSON": path for tool, path in DOCUMENTS.items()}}


def each_line(prefix: Callable[[int], str]) -> Callable[[str], str]:
    return lambda text: "".join(f"{prefix(number)}{line}\n" for number, line in enumerate(text.splitlines(), 1))


def in_gitlab(text: str) -> str:
    start = "\x1b[0Ksection_start:1560896352:run\r\x1b[0K\x1b[36;1mExecuting\x1b[0;m\n\x1b[0;m"
    return f"{start}{text}\x1b[0Ksection_end:1560896353:run\r\x1b[0K\n"


def in_docker(text: str) -> str:
    return "".join(json.dumps({"log": line + "\n", "stream": "stdout"}) + "\n" for line in text.splitlines())


WAYS: dict[str, Callable[[str], str]] = {
    "compose": each_line(lambda _: "bench-1  | "),
    "github": each_line(lambda n: f"2026-02-11T08:14:{n % 60:02}.{n:07}Z "),
    "gitlab": in_gitlab,
    "gitlab with times": each_line(lambda n: f"2026-02-11T08:14:{n % 60:02}.{n:06}Z 01O "),
    "ts -i": each_line(lambda n: f"00:00:{n % 60:02} "),
    "buildkit": each_line(lambda n: f"#12 {3 + n / 10:.3f} "),
    "cat -n": each_line(lambda n: f"{n:6}\t"),
    "grep -n": each_line(lambda n: f"{n}:"),
    "grep -nH": each_line(lambda n: f"out/run-1.txt:{n}:"),
    "nl": each_line(lambda n: f"{n:3} "),
    "docker": in_docker,
    "carriage returns": lambda text: text.replace("\n", "\r"),
    "doubled": lambda text: text.replace("\n", "\n\n"),
    "HTML": lambda text: text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", "<br>\n"),
    "no-break spaces of HTML": lambda text: text.replace("  ", " &nbsp;"),
    "backticks": lambda text: re.sub(r"(?m)^(.*\S.*)$", r"`\1`", text),
}


def read(folder: Path, data: bytes) -> list[object]:
    file = folder / "out.txt"
    file.write_bytes(data)
    return [report.parsed.measurements if report.parsed else report.error for report in find_reports(file)]


def captured(name: str) -> str:
    return (FIXTURES / CAPTURES[name]).read_text()


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize("way", WAYS)
def test_report_has_the_same_numbers_in_what_it_lies_in(way: str, name: str, tmp_path: Path) -> None:
    text = captured(name)
    whole = read(tmp_path, text.encode())
    assert len(whole) == 1 and not isinstance(whole[0], str)
    assert read(tmp_path, WAYS[way](text).encode()) == whole


@pytest.mark.parametrize("number", ["{:6}\t", "{}:", "out/run-1.txt:{}:", "{:3} "])
@pytest.mark.parametrize("name", ["clean_text", "dead_text"])
def test_progress_between_carriage_returns_hides_no_number_of_a_line(name: str, number: str, tmp_path: Path) -> None:
    text = (FIXTURES / f"bombardier/1.2.6--{name}.stdout").read_bytes()
    whole = read(tmp_path, text)
    assert b"\r" in text and len(whole) == 1 and not isinstance(whole[0], str)
    lines = enumerate(text.decode().removesuffix("\n").split("\n"), 1)
    assert read(tmp_path, "".join(f"{number.format(place)}{line}\n" for place, line in lines).encode()) == whole


@pytest.mark.parametrize("name", CAPTURES)
def test_utf_16_is_read_in_either_order_without_its_mark(name: str, tmp_path: Path) -> None:
    text = captured(name)
    for encoding in ("utf-16-be", "utf-16-le"):
        assert read(tmp_path, text.encode(encoding)) == read(tmp_path, text.encode())


@pytest.mark.parametrize("tool", DOCUMENTS)
def test_documents_on_one_line_are_a_report_each(tool: str, tmp_path: Path) -> None:
    text = captured(f"{tool} in JSON").strip()
    for between in ("", " "):
        assert read(tmp_path, f"{text}{between}{text}".encode()) == 2 * read(tmp_path, text.encode())


def test_lines_keep_their_numbers_in_the_file() -> None:
    assert without_marks('{"a": 1}{"b":\n2} {"c": 3}\n')[:2] == ('{"a": 1}\n{"b":\n2}\n {"c": 3}\n', (1, 1, 2, 2, 3))
    doubled = "\n\n".join("abcdef") + "\n"
    assert without_marks(doubled)[:2] == ("a\nb\nc\nd\ne\nf", (1, 3, 5, 7, 9, 11))


@pytest.mark.parametrize(
    "text",
    [
        "1\ta\n2\tb\n4\tc\n5\td\n",  # a line is missing: numbers of something else
        "1790000000001,5,GET /,200\n1790000000002,5,GET /,200\n1790000000003,5,GET /,200\n1790000000004,5,GET /,200\n",
        "bench-1  | a\nbench-1  | b\n",  # too few lines
        'a\n"&quot;"\nb\n',
        '{"a": "}{"}\n',
        "a\n\nb\n\nc\n",
        "`a`\nb\n`c`\n`d`\n",
    ],
)
def test_what_only_looks_like_a_mark_stays(text: str) -> None:
    assert without_marks(text) == (text, (), [])
