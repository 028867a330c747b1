"""What a report lies in is taken off without a change of its numbers, and said once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from loadbook.core.errors import DataError
from loadbook.ingestion.wrapping import unwrap
from loadbook.tools import base
from loadbook.tools.base import ToolOutput
from tool_captures import FIXTURES

TEXTS = {
    "ab": "2.3--n20000_c50",
    "h2load": "1.52.0--h1_n20000",
    "hey": "0.1.5--clean_text",
    "httperf": "0.9.0--r8000_n40000",
    "k6": "1.8.1--text",
    "vegeta": "12.13.0--every_text",
    "weighttp": "0.4--plain_n20000_c50_t2",
    "wrk": "4.1.0--tls",
    "wrk2": "4.0.0--R2000_d14_latency",
}
CAPTURES = {tool: (FIXTURES / tool / f"{name}.stdout").read_bytes() for tool, name in TEXTS.items()}


def lines_with(prefix: Callable[[int], str], data: bytes) -> bytes:
    lines = data.decode().splitlines()
    return "".join(f"{prefix(number)}{line}\n" for number, line in enumerate(lines)).encode()


PREFIXES: dict[str, Callable[[int], str]] = {
    "github": lambda n: f"2026-02-11T08:14:{n % 60:02}.{n:07}Z ",
    "compose": lambda _: "bench-1  | ",
    "compose with colours": lambda _: "\x1b[36mbench-1  | \x1b[0m",
    "quote": lambda _: "> ",
    "code of Markdown": lambda _: "    ",
    "tabulator": lambda _: "\t",
    "ts": lambda n: f"Feb {n % 28 + 1:2} 08:14:{n % 60:02} ",
    "syslog": lambda n: f"Feb 11 08:14:{n % 60:02} host bench[4711]: ",
    "clock": lambda n: f"[08:14:{n % 60:02}] ",
    "seconds": lambda n: f"[{n:5}.{n:06}] ",
    "kubernetes": lambda n: f"2026-02-11T08:14:{n % 60:02}.000000001Z stdout F ",
    "log": lambda n: f"2026-02-11 08:14:{n % 60:02},123 INFO bench: ",
}


def rows(tool: str, data: bytes) -> object:
    return base.load_tool(tool).parse(ToolOutput(data)).measurements


@pytest.mark.parametrize("tool", CAPTURES)
@pytest.mark.parametrize("kind", PREFIXES)
def test_prefix_of_every_line_is_taken_off(kind: str, tool: str) -> None:
    (text,) = unwrap(lines_with(PREFIXES[kind], CAPTURES[tool]))
    assert rows(tool, text.data) == rows(tool, CAPTURES[tool])
    assert len(text.taken_off) == 1 or (tool, kind) == ("k6", "code of Markdown")  # k6's lines begin with any blanks


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (gzip.compress, "gzip"),
        (lambda data: pa.compress(data, "zstd", asbytes=True), "zstd"),
        (lambda data: b"\xff\xfe" + data.decode().encode("utf-16-le"), "UTF-16"),
        (lambda data: data.decode().encode("utf-16-le"), "UTF-16"),
        (lambda data: data.replace(b"  ", " \u00a0".encode()), "no-break spaces"),
        (
            lambda data: b"".join(
                json.dumps({"log": f"{line}\n", "stream": "stdout"}, separators=(",", ":")).encode() + b"\n"
                for line in data.decode().splitlines()
            ),
            "Docker's JSON around each line",
        ),
    ],
)
@pytest.mark.parametrize("tool", ["wrk", "ab", "h2load"])
def test_encoding_is_undone(tool: str, change: Callable[[bytes], bytes], named: str) -> None:
    (text,) = unwrap(change(CAPTURES[tool]))
    assert rows(tool, text.data) == rows(tool, CAPTURES[tool])
    assert text.taken_off == (named,)


@pytest.mark.parametrize("tool", CAPTURES)
def test_output_without_wrapping_stays_byte_for_byte(tool: str) -> None:
    (text,) = unwrap(CAPTURES[tool])
    assert (text.data, text.taken_off) == (CAPTURES[tool], ())


def test_bold_numbers_of_markdown_are_read() -> None:
    data = CAPTURES["wrk"].replace(b"Requests/sec:", b"**Requests/sec:**")
    assert rows("wrk", unwrap(b"```\n" + data + b"```\n")[0].data) == rows("wrk", CAPTURES["wrk"])


def test_containers_in_one_log_are_a_text_each_with_the_lines_of_the_file() -> None:
    one = lines_with(lambda _: "bench-1  | ", CAPTURES["wrk"]).splitlines()
    two = lines_with(lambda _: "bench-2  | ", CAPTURES["ab"]).splitlines()
    length = max(len(one), len(two))
    pairs = zip(one + [b"web | GET /"] * (length - len(one)), two + [b""] * (length - len(two)), strict=True)
    mixed = b"Attaching to bench-1\n" + b"\n".join(line for pair in pairs for line in pair)
    texts = unwrap(mixed)
    assert [text.taken_off for text in texts] == [("the prefix 'bench-1  | '",), ("the prefix 'bench-2  | '",)]
    assert rows("wrk", texts[0].data) == rows("wrk", CAPTURES["wrk"])
    assert rows("ab", texts[1].data) == rows("ab", CAPTURES["ab"])
    for text, lines in zip(texts, (one, two), strict=True):
        places = [number for number, line in enumerate(mixed.splitlines(), 1) if line in lines and line.strip()]
        assert list(text.numbers) == places


def test_number_at_the_beginning_of_a_line_is_no_year() -> None:
    data = (FIXTURES / "autocannon" / "9.0.0--mix404_plain_text.stderr").read_bytes()
    for prefix in ("00:00:03 ", "Feb 11 08:14:07 ", "2026-02-11T08:14:07Z "):
        (text,) = unwrap(lines_with(lambda _, prefix=prefix: prefix, data))
        assert rows("autocannon", text.data) == rows("autocannon", data)


def test_lines_of_other_containers_leave_no_gaps() -> None:
    data = (FIXTURES / "fortio" / "1.66.5--clean_text.stderr").read_bytes()
    mixed = b"".join(b"bench-1  | " + line + b"\nweb-1    | GET / 200\n" for line in data.splitlines())
    (text,) = unwrap(mixed)
    assert rows("fortio", text.data) == rows("fortio", data)


@pytest.mark.parametrize("cut", [5, -5])
@pytest.mark.parametrize("pack", [gzip.compress, lambda data: pa.compress(data, "zstd", asbytes=True)])
def test_compressed_file_that_is_cut_is_refused(pack: Callable[[bytes], bytes], cut: int) -> None:
    with pytest.raises(DataError, match=r"wrk\.log: the (gzip|zstd) file is cut or broken"):
        unwrap(pack(CAPTURES["wrk"])[:cut], "wrk.log")


@given(
    st.binary(max_size=400) | st.text(alphabet="> |Running 3s test @ \n\t{}[]\"'0123:-Z", max_size=300).map(str.encode)
)
@settings(max_examples=examples(200), deadline=None)
def test_any_content_is_unwrapped_without_an_error(data: bytes) -> None:
    if data[:2] == b"\x1f\x8b" or data[:4] == b"\x28\xb5\x2f\xfd":
        return
    for text in unwrap(data):
        text.data.decode(errors="strict" if text.taken_off else "replace")
