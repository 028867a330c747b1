"""What one execution left behind, as parsers get it: a big JTL is read as a stream, with the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from loadbook.ingestion import captured
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
