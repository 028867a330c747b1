"""What one execution left behind, as parsers get it: a big JTL is read as a stream, with the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from loadbook.ingestion import captured
from loadbook.tools import base

CAPTURE = Path(__file__).parents[2] / "fixtures" / "jmeter" / "5.6.3--csv_noheader.out.jtl"
COMMAND = "jmeter -n -t p.jmx -l out.jtl -Jjmeter.save.saveservice.print_field_names=false"


@pytest.mark.parametrize("alone", [True, False])
def test_large_jmeter_log_is_streamed_from_its_file(
    alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(CAPTURE.with_name("5.6.3--locale_de.out.jtl") if alone else CAPTURE, tmp_path / "out.jtl")
    (tmp_path / "stdout").write_bytes(b"")
    (tmp_path / "cmd").write_text(COMMAND)
    path, tool = tmp_path / "out.jtl" if alone else tmp_path, base.load_tool("jmeter")
    held = captured.parse_output(tool, path, captured.read_captured(path, "jmeter"))
    monkeypatch.setattr(captured, "MAX_READ_BYTES", 1000)
    streamed = captured.read_captured(path, "jmeter")
    assert streamed.paths == {"out.jtl": tmp_path / "out.jtl"}
    assert not streamed.files
    assert captured.parse_output(tool, path, streamed).measurements == held.measurements
