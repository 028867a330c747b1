"""Labels of logs that are code, paths or escapes: counted apart as they are, in memory and in parquet, or refused."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pyarrow.parquet as pq
import pytest

from hostile_texts import WRITABLE, no_canary, silent
from loadbook.core.errors import ParseError
from loadbook.request_logs.read import RequestWriter, read_batches, summarise
from tool_captures import FIXTURES

pytestmark = pytest.mark.fault(44)
HEADER = ["timeStamp", "elapsed", "label", "responseCode", "success"]


def jtl(labels: list[str]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows([1795213331189 + k, 7, label, 200, "true"] for k, label in enumerate(labels))
    return out.getvalue().encode()


def xml(labels: list[str]) -> bytes:
    rows = "".join(f'<httpSample t="7" ts="1795213331189" s="true" rc="200" lb={quoteattr(text)}/>' for text in labels)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testResults version="1.2">\n{rows}\n</testResults>\n'.encode()


PLAIN = [t for t in dict.fromkeys(WRITABLE) if t.isprintable() and t]


@pytest.mark.parametrize("write", [jtl, xml])
def test_hostile_labels_are_counted_and_stored_verbatim(tmp_path: Path, write) -> None:
    data = write(PLAIN)
    found = summarise(data, "jmeter", file="out.jtl")
    assert set(found.labels) == set(PLAIN)
    (tmp_path / "out.jtl").write_bytes(data)
    with RequestWriter(tmp_path / "requests.parquet") as store:
        for batch in read_batches(tmp_path / "out.jtl", "jmeter"):
            store.write(batch, "driver")
    assert pq.read_table(tmp_path / "requests.parquet")["label"].to_pylist() == PLAIN
    assert no_canary(tmp_path)


@pytest.mark.parametrize("text", [t for t in WRITABLE if not t.isprintable()])
def test_label_with_control_characters_is_one_label_or_a_readable_error(text: str) -> None:
    for write in (jtl, xml):
        try:
            found = summarise(write(["before", text, "after"]), "jmeter", file="out.jtl")
        except ParseError as error:
            assert silent(error.message) and "out.jtl" in error.message
        else:
            assert {"before", "after"} <= set(found.labels) and len(found.labels) <= 3


@pytest.mark.parametrize("name", ["12.13.0--csv", "12.13.0--gob"])
def test_label_of_an_address_with_an_open_bracket_is_the_whole_name(name: str) -> None:
    data = (FIXTURES / f"vegeta/{name}.stdout").read_bytes()
    old, new = b"http://127.0.0.1", b"http://[27.0.0.1"  # as long, since a gob has lengths
    assert old in data
    summary = summarise(data.replace(old, new), "vegeta", file="results")
    assert all(label.startswith("http://[27.0.0.1") for label in summary.labels)
    assert summary.total().attempts == summarise(data, "vegeta", file="results").total().attempts
