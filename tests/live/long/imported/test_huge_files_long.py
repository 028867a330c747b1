"""Outputs of a gigabyte given to `parse` and `import`: refused with their size, or streamed, in bounded memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from peak_memory import MAX_RSS_BYTES, call, grown

pytestmark = pytest.mark.fault(28, 57)
CAPTURES = Path(__file__).parents[3] / "fixtures"


def test_oversized_report_is_imported_as_an_invalid_trial(tmp_path):
    folder = tmp_path / "outputs"
    folder.mkdir()
    for name in ("a", "b"):
        grown(folder / name, b"Running 1s test @ http://a/\n", 300_000_000)
    conditions = tmp_path / "conditions.csv"
    conditions.write_text("file,treatment,block\na,plain,1\nb,tuned,1\n")
    for above in ("studies", "notebooks"):
        (tmp_path / above).mkdir()
    code, printed, peak = call(
        tmp_path, "import", folder, "--conditions", conditions, "--tool", "wrk", "--baseline", "plain"
    )
    assert code == 4, printed
    assert "none of its trials counts: 2 trials: report unreadable" in printed
    assert peak < MAX_RSS_BYTES


def test_half_gigabyte_jtl_is_read_in_limited_memory(tmp_path, record_property):
    rows, at = 20_000_000, 1_700_000_000_000_000
    folder = tmp_path / "h2load"
    folder.mkdir()
    block = b"".join(b"%d\t200\t%d\n" % (at + k, 100 + k % 900) for k in range(1_000_000))
    with (folder / "h2load.log").open("wb") as file:
        for _ in range(rows // 1_000_000):
            file.write(block)
    (folder / "cmd").write_text("h2load -D 1s --log-file=h2load.log http://a/")
    report = (CAPTURES / "h2load").glob("*log*.stdout")
    (folder / "stdout").write_bytes(next(report).read_bytes())
    code, printed, peak = call(tmp_path, "parse", "h2load", folder)
    # its report is another run's: what is looked for is that all of the log is read, and in how much memory
    assert code in (0, 4), printed
    assert peak < MAX_RSS_BYTES
    record_property("seen", f"h2load's log of {(folder / 'h2load.log').stat().st_size // 10**6} MB: {peak // 10**6} MB")


def test_large_ab_request_log_is_read_in_limited_memory(tmp_path, record_property):
    folder = tmp_path / "ab"
    folder.mkdir()
    head = "starttime\tseconds\tctime\tdtime\tttime\twait\n"
    row = b"Sat Nov 21 10:00:00 2026\t1795255200\t0\t1\t1\t1\n"
    with (folder / "ab.tsv").open("wb") as file:
        file.write(head.encode())
        for _ in range(18):
            file.write(row * 100_000)
    name = "2.3--freeze_1s"
    (folder / "stdout").write_bytes((CAPTURES / "ab" / f"{name}.stdout").read_bytes())
    (folder / "cmd").write_text("ab -n 10 -g ab.tsv http://a/")
    code, printed, peak = call(tmp_path, "parse", "ab", folder)
    assert code == 4, printed
    assert "1800000 rows for" in printed
    assert peak < MAX_RSS_BYTES
    record_property("seen", f"rows of ab, {(folder / 'ab.tsv').stat().st_size // 10**6} MB: {peak // 10**6} MB")
