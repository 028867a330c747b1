"""JTL in XML: every capture against xml.etree, and what hostile files become."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

import jtl_captures as jtl
import slow_jtl_reader as slow
from loadbook.core.errors import ParseError
from loadbook.request_logs import jtl_xml
from loadbook.request_logs.read import summarise
from loadbook.request_logs.stream import LogRowKind
from loadbook.request_logs.summary import Summary

CAPTURES = ["5.1.1--xml", "5.6.3--xml_10x20", "5.6.3--xml_embedded", "5.6.3--xml_full_3x2", "5.6.3--xml_messages", "5.6.3--xml_tx"]  # fmt: skip  # noqa: E501
NAMES = {"ts": "timeStamp", "t": "elapsed", "lb": "label", "rc": "responseCode", "s": "success", "by": "bytes"}
HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n<testResults version="1.2">\n'
SAMPLE = b'<httpSample t="23" lt="20" ts="1795212952049" s="true" lb="home" rc="200" rm="OK" tn="T 1-1" by="238"%s>\n'
END = b"</testResults>\n"


def read(data: bytes) -> Summary:
    return summarise(data, "jmeter", file="out.jtl")


def requests(element: ET.Element, within_request: bool = False) -> list[dict[str, str]]:
    """Return the requests below an element: samples that are neither transactions nor within another request."""
    found = []
    for child in element:
        if child.tag not in ("sample", "httpSample"):
            continue
        transaction = child.get("rm", "").startswith(slow.TRANSACTION)
        if not within_request and not transaction:
            found.append({NAMES[name]: value for name, value in child.attrib.items() if name in NAMES})
        found += requests(child, within_request or not transaction)
    return found


def figures(data: bytes) -> dict[str, Any]:
    return slow.figures(requests(ET.fromstring(data)))


@pytest.mark.parametrize("name", CAPTURES)
def test_jtl_xml_recorded_files_are_read_as_by_elementtree(name: str) -> None:
    data = jtl.capture(name)
    jtl.same(jtl.reported(read(data)), figures(data))


def test_jtl_xml_nested_samples_are_counted_once() -> None:
    assert read(jtl.capture("5.6.3--xml_tx")).rows == {LogRowKind.REQUEST: 30, LogRowKind.TRANSACTION: 24}
    embedded = read(jtl.capture("5.6.3--xml_embedded"))
    assert embedded.rows == {LogRowKind.REQUEST: 12, LogRowKind.PART: 54}
    assert set(embedded.labels) == {"page", "html 404 inside"}


@pytest.mark.parametrize("size", [7, 100, 5000])
def test_jtl_xml_is_read_alike_with_any_chunk_size(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = jtl.capture("5.6.3--xml_messages")
    whole = read(data)
    monkeypatch.setattr(jtl_xml, "CHUNK_BYTES", size)
    monkeypatch.setattr(jtl_xml, "BATCH_ROWS", 3)
    parts = read(data)
    assert (jtl.reported(parts), parts.rows, parts.per_second_counts()) == (
        jtl.reported(whole),
        whole.rows,
        whole.per_second_counts(),
    )


@pytest.mark.parametrize("name", ["5.1.1--xml", "5.6.3--xml_embedded"])
def test_jtl_xml_truncated_file_gives_its_complete_samples(name: str) -> None:
    data = jtl.capture(name)
    for end in range(200, len(data) - len(END) - 1, 997):
        summary = read(data[:end])
        complete = len([*ET.fromstring(data[: data.rfind(b"\n</httpSample>", 0, end) + 15] + b"</testResults>")]) if (
            b"\n</httpSample>" in data[:end]
        ) else 0  # fmt: skip
        assert summary.total().attempts == complete
        assert summary.damage_counts == {"torn": 1}
        assert summary.damage[0].line <= data[:end].count(b"\n") + 1


def test_jtl_xml_characters_that_xml_forbids_do_not_stop_the_reader() -> None:
    junk = b"<responseData>\x01\x02 &#x0; &#1; &#x1F; &#10; &#x41;</responseData></httpSample>\n"
    summary = read(HEAD + SAMPLE % b"" + junk + END)
    assert (summary.total().attempts, summary.damage) == (1, [])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'<?xml version="1.0"?>\n<!DOCTYPE t [<!ENTITY a "b">]>\n<testResults version="1.2"/>', "document type"),
        (b'<!DOCTYPE t SYSTEM "file:///etc/passwd"><testResults/>', "document type"),
        (b"<html><body/></html>", "root element"),
        (HEAD + b"<note/>" + END, "element note"),
        (HEAD + SAMPLE % b"" + b"</sample>" + END, "mismatched tag"),
        (HEAD + SAMPLE % b"" + b"</httpSample>" + END + b"<html/>", "junk after"),
        (HEAD + SAMPLE % b"" + b"</httpSample>" + END + HEAD + b"<note/>" + END, "element note"),
        (HEAD + (SAMPLE % b"").replace(b'"23"', b'"2.3"') + b"</httpSample>" + END, "whole number"),
        (HEAD + (SAMPLE % b"").replace(b'"true"', b'"1"') + b"</httpSample>" + END, "neither true nor false"),
        (HEAD + (SAMPLE % b"").replace(b"1795212952049", b"17952") + b"</httpSample>" + END, "13 digits"),
        (HEAD + SAMPLE % b"" + b"</httpSample>" + (SAMPLE % b"").replace(b' by="238"', b"") + b"</httpSample>" + END,
         "no by"),
        (HEAD + (SAMPLE % b"").replace(b's="true"', b"").replace(b'rc="200"', b"") + b"</httpSample>" + END, "neither"),
        (b"<?xml", "ends before"),
        (HEAD.replace(b"UTF-8", b"TF-8") + END, "UTF-8: unknown encoding"),
        (HEAD.replace(b"UTF-8", b"GB18030") + END, "UTF-8"),
    ],
)  # fmt: skip
def test_jtl_xml_reader_refuses_other_files(data: bytes, why: str) -> None:
    with pytest.raises(ParseError, match=why) as error:
        read(data)
    assert (error.value.tool, error.value.file) == ("jmeter", "out.jtl")


def test_jtl_xml_sample_that_never_began_is_in_no_number() -> None:
    sample = SAMPLE % b"" + b"</httpSample>\n"
    never = sample.replace(b"1795212952049", b"0").replace(b'"true"', b'"false"').replace(b'rc="200"', b'rc=""')
    summary = read(HEAD + sample + never + END)
    assert (summary.total().attempts, summary.damage_counts) == (1, {"not_begun": 1})
    assert summary.damage[0].line == 5


@pytest.mark.parametrize("chunk", [7, 64, 1 << 20])
@pytest.mark.parametrize("head", [HEAD, HEAD.partition(b"\n")[2]])
def test_jtl_xml_files_that_were_joined_are_read_with_a_damage(
    chunk: int, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jtl_xml, "CHUNK_BYTES", chunk)
    sample = SAMPLE % b"" + b"</httpSample>\n"
    summary = read(HEAD + 2 * sample + END + head + sample + END + head + sample + END)
    assert (summary.total().attempts, summary.damage_counts) == (4, {"header": 2})
    assert [damage.line for damage in summary.damage] == [8, 8 + head.count(b"\n") + 3]


def test_jtl_xml_error_in_a_joined_document_has_the_line_of_the_file() -> None:
    sample = SAMPLE % b"" + b"</httpSample>\n"
    with pytest.raises(ParseError, match="whole number") as error:
        read(HEAD + sample + END + HEAD + sample.replace(b'"23"', b'"2.3"') + END)
    assert error.value.line == 8
    with pytest.raises(ParseError, match="mismatched tag") as error:
        read(HEAD + sample + END + HEAD + b"</other>")
    assert error.value.line == 8


def test_jtl_xml_aggregated_samples_give_counts_but_no_times() -> None:
    summary = read(HEAD + SAMPLE % b' sc="7" ec="2"' + b"</httpSample>" + END)
    total = summary.total()
    assert (total.attempts, total.ok, total.latency.count, summary.rows) == (7, 5, 0, {LogRowKind.AGGREGATE: 1})


def test_jtl_xml_without_samples_has_no_requests() -> None:
    assert jtl.reported(read(HEAD + END)) == slow.figures([])
