"""What one execution left behind, as parsers get it: a big JTL is read as a stream, with the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from loadbook.ingestion import captured, recognise
from loadbook.ingestion.recognise import find_reports

CAPTURE = Path(__file__).parents[2] / "fixtures" / "jmeter" / "5.6.3--csv_noheader.out.jtl"
COMMAND = "jmeter -n -t p.jmx -l out.jtl -Jjmeter.save.saveservice.print_field_names=false"


@pytest.mark.parametrize("alone", [True, False])
def test_large_jmeter_log_is_streamed_from_its_file(
    alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(CAPTURE.with_name("5.6.3--locale_de.out.jtl") if alone else CAPTURE, tmp_path / "out.jtl")
    (tmp_path / "stdout").write_bytes(b"")
    (tmp_path / "cmd").write_text(COMMAND)
    path = tmp_path / "out.jtl" if alone else tmp_path
    (held,) = find_reports(path, "jmeter")
    monkeypatch.setattr(captured, "MAX_READ_BYTES", 1000)
    streamed = captured.read_file(path) if alone else captured.read_folder(path)[0]
    assert streamed.paths == {"out.jtl": tmp_path / "out.jtl"}
    assert not streamed.files
    assert held.parsed and [found.measurements for found in find_reports(path, "jmeter")] == [held.measurements]


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "jmeter/5.6.3--csv_https.out.jtl", "jmeter/5.6.3--xml_10x20.out.jtl", "vegeta/12.13.0--csv.stdout",
        "k6/1.8.1--points_csv.points.csv", "hey/0.1.5--count_csv.stdout", "oha/1.16.0--count_csv.stdout",
    ],
)  # fmt: skip
def test_log_in_utf_16_is_read(name: str, is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = CAPTURE.parents[1] / name
    path = tmp_path / ("out.jtl" if source.suffix == ".jtl" else "out.csv")
    path.write_bytes(source.read_bytes().decode().encode("utf-16"))
    if is_large:
        monkeypatch.setattr(captured, "MAX_READ_BYTES", 100)
        monkeypatch.setattr(captured, "MAX_REPORT_BYTES", 100)
        monkeypatch.setattr(recognise, "MAX_REPORT_BYTES", 100)
    expected, found = (find_reports(each)[0] for each in (source, path))
    assert expected.measurements == found.measurements != ()


def test_xml_that_says_utf_16_is_read(tmp_path: Path) -> None:
    source = CAPTURE.with_name("5.6.3--xml_10x20.out.jtl")
    text = source.read_text().replace('encoding="UTF-8"', 'encoding="UTF-16"')
    (tmp_path / "out.jtl").write_bytes(text.encode("utf-16"))
    assert find_reports(tmp_path / "out.jtl")[0].measurements == find_reports(source)[0].measurements
