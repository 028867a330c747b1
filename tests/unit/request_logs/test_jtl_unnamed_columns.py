"""JTL without a header: columns are known by their number and by the kinds of all their fields."""

from __future__ import annotations

from itertools import product

import pytest

from loadbook.core.errors import ParseError
from loadbook.request_logs import jtl_csv, jtl_rows
from loadbook.request_logs.read import summarise
from loadbook.request_logs.stream import LogRowKind
from loadbook.request_logs.summary import Summary

OLD = b"""1700000000000,12,home,200,OK,Users 1-1,text,true,512,11
1700000000100,15,home,200,OK,Users 1-1,text,true,512,14
1700000000200,11,home,200,OK,Users 1-1,text,true,512,10
"""
ROWS = {  # by number of columns
    10: "{t},12,home,200,OK,Users 1-1,text,true,512,11",
    12: "{t},12,home,200,OK,Users 1-1,text,true,512,3,4,11",
    16: "{t},12,home,200,OK,Users 1-1,text,true,,512,120,3,4,11,0,2",
    17: "{t},12,home,200,OK,Users 1-1,text,true,,512,120,3,4,http://127.0.0.1/,11,0,2",
}
HEADER = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,Latency"
BROKEN = f"""{HEADER}
1700000000000,213,home,200,OK,Users 1-1,text,true,,812,212
1700000000400,198,home,502,Bad Gateway,Users 1-1,text,false,no such node
see the log,150,197
1700000000800,205,home,200,OK,Users 1-1,text,true,,812,204
"""


def read(text: bytes | str) -> Summary:
    return summarise(text if isinstance(text, bytes) else text.encode(), "jmeter", file="out.jtl")


def file_of(columns: int) -> list[str]:
    return [ROWS[columns].format(t=1700000000000 + 100 * i) for i in range(5)]


def test_ten_columns_of_jmeter_2_are_read() -> None:
    total = read(OLD).total()
    assert (total.attempts, total.ok) == (3, 3)
    assert total.latency.times_us() == {12_000: 1, 15_000: 1, 11_000: 1}
    assert read(OLD).duration_s == pytest.approx(0.211)


@pytest.mark.parametrize("columns", ROWS)
def test_default_columns_of_each_version_are_read_with_their_bytes_and_latency(columns: int) -> None:
    total = read("\n".join(file_of(columns)) + "\n").total()
    assert (total.attempts, total.ok, total.received) == (5, 5, 5 * 512)
    assert total.first_byte.times_us() == {11_000: 5}


# of each column, a text of another kind; columns that hold any text are left out
WRONG = {"timeStamp": "12", "elapsed": "x", "responseCode": "OK", "dataType": "true", "success": "512", "bytes": "text",
         "sentBytes": "-1", "grpThreads": "1.5", "allThreads": "", "URL": "12", "Latency": "http:", "IdleTime": "true",
         "Connect": "null"}  # fmt: skip


@pytest.mark.parametrize(("columns", "row"), list(product(ROWS, (0, 4))))
def test_row_of_other_kinds_is_refused_wherever_it_stands(columns: int, row: int) -> None:
    unsaved = next(
        kept for kept in jtl_rows.DEFAULTS_WITHOUT_HEADER if len(jtl_rows.COLUMN_PROPERTIES.keys() - kept) == columns
    )
    names = [name for name in jtl_rows.COLUMN_PROPERTIES if name not in unsaved]
    for place, name in enumerate(names):
        if name in WRONG:
            lines = file_of(columns)
            fields = lines[row].split(",")
            fields[place] = WRONG[name]
            lines[row] = ",".join(fields)
            with pytest.raises(ParseError) as refused:
                read("\n".join(lines) + "\n")
            assert refused.value.line == row + 1, name


def test_other_order_or_number_of_columns_is_refused() -> None:
    for fields in (["200", "home"], ["home", "200", "OK", "Users 1-1", "text"]):
        with pytest.raises(ParseError, match="neither the header of a JTL nor a row of known columns"):
            read(",".join(["1700000000000", "12", *fields, "true", "512"]) + "\n")


def test_row_broken_by_a_line_end_in_its_message_is_read_with_a_doubt() -> None:
    summary = read(BROKEN)
    assert summary.rows == {LogRowKind.REQUEST: 3} and summary.total().ok == 2
    assert [(damage.name, damage.line) for damage in summary.damage] == [("line_end", 3)]


def test_message_of_several_lines_with_an_empty_one_is_one_row() -> None:
    summary = read(BROKEN.replace("see the log", "\nsee\nthe log"))
    assert summary.rows == {LogRowKind.REQUEST: 3}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("see the log,150,197", "see the log,x,150,197"),  # a field too many
        ("see the log,150,197", "see the log,150"),  # one too few
        ("see the log,150,197", "see the log,150,x"),
        ("Bad Gateway,Users 1-1,text,false,no", "Bad Gateway,Users 1-1,text,maybe,no"),
        ("Users 1-1,text,false,no such node", "Users\n1-1,text,false,no such node"),  # not within a message
        ("see the log,150,197\n", "\n" * (jtl_csv.MAX_LINES + 1) + "see the log,150,197\n"),
    ],
)
def test_broken_row_that_is_no_row_when_joined_is_refused(old: str, new: str) -> None:
    assert old in BROKEN
    with pytest.raises(ParseError, match=r"out\.jtl:3: "):
        read(BROKEN.replace(old, new))


def test_refusal_of_a_broken_row_says_how_to_mend_it() -> None:
    with pytest.raises(ParseError, match=r"out\.jtl:3: 9 fields where 11 .*; put quotes around messages"):
        read(BROKEN.replace("see the log,150,197\n", ""))


def test_cut_row_is_not_joined_with_the_next_one() -> None:
    lines = BROKEN.splitlines(keepends=True)
    cut = "".join([*lines[:2], "1700000000400,198,home,502,Bad\n", *lines[4:]])
    with pytest.raises(ParseError, match=r"out\.jtl:3: 5 fields where 11"):
        read(cut)
