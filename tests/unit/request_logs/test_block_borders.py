"""Blocks end between records, wherever line ends and quotes within quoted fields lie."""

import csv
import io
import random

import pytest

import jtl_captures as jtl
from loadbook.request_logs import stream
from loadbook.request_logs.read import summarise
from loadbook.request_logs.stream import split_blocks

TEXTS = ("", "plain", "two\nlines", "\n", '"', '""\n"', 'a "quoted\r\nword", b', ",", "\n\n", 'ends with "', '\n"\n,"')
BORDERS = 10_000


def quoted_rows(rng: random.Random, rows: int) -> list[list[str]]:
    """Return rows whose texts hold separators, quotes and line ends."""
    return [[str(number), *rng.choices(TEXTS, k=3), str(number * 7)] for number in range(rows)]


def test_blocks_end_between_records_at_ten_thousand_random_borders() -> None:
    rng, borders = random.Random(20261129), 0
    while borders < BORDERS:
        rows = quoted_rows(rng, 300)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        data = text.getvalue().encode()
        blocks = list(split_blocks(io.BufferedReader(io.BytesIO(data)), rng.randrange(20, 800)))
        assert b"".join(block.data for block in blocks) == data and all(block.is_complete for block in blocks)
        pieces = [list(csv.reader(io.StringIO(block.data.decode(), newline=""))) for block in blocks]
        assert [row for piece in pieces for row in piece] == rows
        borders += len(blocks)


@pytest.mark.parametrize(
    ("tool", "head", "row"),
    [
        (
            "jmeter",
            "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,failureMessage,bytes\n",
            ("17953133700{n:02}", "{n}", "home", "200", "{a}", "users 1-1", "true", "{b}", "10"),
        ),
        (
            "vegeta",
            "",
            ("17953836880000{n:02}000", "200", "{n}000", "0", "12", "{a}", "", "{b}", "{n}", "GET", "http://h/", ""),
        ),
        (
            "k6",
            "metric_name,timestamp,metric_value,error,error_code,name,status\n",
            ("http_req_duration", "17953838470000{n:02}", "{n}.5", "{a} {b}", "", "http://h/", "200"),
        ),
    ],
)
def test_logs_with_quoted_line_ends_are_read_alike_with_any_block_size(
    tool: str, head: str, row: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(tool)
    text = io.StringIO()
    for number in range(90):
        a, b = rng.choices(TEXTS[1:], k=2)
        fields = [field.format(n=number + 10, a=a.replace("\r", ""), b=b.replace("\r", "")) for field in row]
        csv.writer(text, lineterminator="\n").writerow(fields)
    data = (head + text.getvalue()).encode()
    whole = summarise(data, tool)
    assert whole.total().attempts == 90
    for size in rng.sample(range(60, 3000), 12):
        monkeypatch.setattr(stream, "BLOCK_BYTES", size)
        parts = summarise(data, tool)
        assert jtl.reported(parts) == jtl.reported(whole), size
        assert (parts.rows, parts.per_second_counts(), parts.damage) == (
            whole.rows,
            whole.per_second_counts(),
            whole.damage,
        )
