"""Files of ours where writing fails half-way for real: in a process that may write so many bytes (ulimit -f)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from loadbook.store.ledger import Ledger, read_ledger

pytestmark = pytest.mark.fault(5)
LIMIT = 20_000
# RLIMIT_FSIZE takes what fits and refuses the rest, as a full disk or a quota does
LIMITED = f"""
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT}, resource.RLIM_INFINITY))
folder = Path(sys.argv[1])
"""


def limited(folder: Path, *lines: str) -> str:
    """Run Python that must fail for want of room, and return what it raised."""
    done = subprocess.run([sys.executable, "-c", LIMITED + "\n".join(lines), str(folder)], capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    assert done.returncode == 1, done.stderr
    return done.stderr.splitlines()[-1]


def test_failed_atomic_write_keeps_the_old_file(tmp_path, record_property):
    old = tmp_path / "old.json"
    old.write_text("old")
    message = limited(tmp_path, "from loadbook.store.atomic import write_atomic",
                   f"write_atomic(folder / 'old.json', b'x' * {2 * LIMIT})")  # fmt: skip
    assert "no room: 39.1" in message
    assert "needed" in message
    assert "free (File too large)" in message
    assert message.endswith(f"'{old}'")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("old.json", "old")]
    record_property("seen", message.partition(": ")[2].replace("\xa0", " "))


def test_table_is_written_completely_or_not_at_all(tmp_path):
    message = limited(
        tmp_path, "import pyarrow, random", "from loadbook.store.tables import write_arrow",
        "table = pyarrow.table({'x': [random.random() for _ in range(20000)]})",
        "write_arrow(folder / 'new.parquet', table)",
    )  # fmt: skip
    assert "no room: " in message
    assert not list(tmp_path.iterdir())


def test_table_of_single_requests_is_written_completely_or_not_at_all(tmp_path):
    log = "".join(f"{1_700_000_000_000_000 + k * 977}\t200\t{(k * 7919) % 100_000}\n" for k in range(40_000))
    (tmp_path / "h2load.log").write_text(log)
    message = limited(
        tmp_path,
        "from loadbook.request_logs.read import summarise",
        "from loadbook.request_logs.read import RequestWriter",
        "with RequestWriter(folder / 'requests' / 'new.parquet') as store:",
        "    summarise(folder / 'h2load.log', 'h2load', store=store)",
    )  # fmt: skip
    assert "no room: " in message
    assert not list((tmp_path / "requests").iterdir())


def test_ledger_line_that_failed_is_absent_and_the_next_line_is_written(tmp_path):
    path = tmp_path / "ledger.jsonl"
    message = limited(
        tmp_path, "from loadbook.store.ledger import Ledger", "ledger = Ledger(folder / 'ledger.jsonl')",
        "ledger.append('run-started', trials=1)", "try:", f"    ledger.append('looked', text='x' * {2 * LIMIT})",
        "except OSError as error:", "    ledger.append('run-resumed')", "    raise",
    )  # fmt: skip
    assert "no room: " in message
    assert str(path) in message
    assert [entry["event"] for entry in read_ledger(path)] == ["run-started", "run-resumed"]
    assert path.read_bytes().endswith(b"\n")
    with Ledger(path) as ledger:
        ledger.append("run-ended")
    assert len(read_ledger(path)) == 3


def test_full_disk_is_reported_without_a_traceback(tmp_path):
    message = limited(tmp_path, "import sys", "from loadbook import cli",
                   "from loadbook.store.atomic import write_atomic",
                   f"cli.cli = lambda **given: write_atomic(folder / 'x', b'x' * {2 * LIMIT})",
                   "try:", "    cli.main()", "except SystemExit as stop:", "    assert stop.code == 4",
                   "    sys.exit(1)")  # fmt: skip
    assert message == "  next: free some space there, then give the same command again: nothing half-written was kept"


def test_init_without_room_leaves_nothing_behind(tmp_path):
    command = f"ulimit -f 50; exec {Path(sys.executable).parent}/loadbook init {tmp_path}/new"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 4
    assert f"loadbook: {tmp_path}/new: no room: " in done.stderr and "next: free some space" in done.stderr
    assert "Traceback" not in done.stderr and list((tmp_path / "new").iterdir()) == []
