"""Outputs of a gigabyte given to `parse` and `import`: refused with their size, or streamed, in bounded memory."""

from __future__ import annotations

import pytest

from loadbook.tools.base import MAX_REPORT_BYTES
from peak_memory import MAX_RSS_BYTES, call, grown

pytestmark = pytest.mark.fault(28, 57)


@pytest.mark.parametrize("tool", ["wrk", "ab", "h2load", "httperf"])
def test_gigabyte_report_is_refused(tmp_path, tool, record_property):
    big = grown(tmp_path / "stdout", b"Running 1s test @ http://a/\n", 1 << 30)
    code, printed, peak = call(tmp_path, "parse", tool, big)
    assert code == 4
    assert f"{big}: 1,073,741,824 bytes are no report: at most {MAX_REPORT_BYTES:,} are read, nothing from" in printed
    assert f"byte {MAX_REPORT_BYTES + 1:,} on would be" in printed
    assert peak < MAX_RSS_BYTES
    record_property("seen", f"parse {tool}: refused, {peak // 10**6} MB")


@pytest.mark.parametrize("line", [b"\n", b"ab\n", b"\x00"])
def test_largest_accepted_report_needs_limited_memory(tmp_path, line):
    report = tmp_path / "stdout"
    report.write_bytes((line * (MAX_REPORT_BYTES // len(line) + 1))[:MAX_REPORT_BYTES])
    code, _, peak = call(tmp_path, "parse", "wrk", report)
    assert code == 4
    assert peak < MAX_RSS_BYTES
