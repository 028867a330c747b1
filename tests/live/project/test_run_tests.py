"""`make test` ends what it started: after each phase, and at Ctrl-C or TERM, also what went into the background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[3]
# a phase whose processes leave its session and ignore what they can, and whose files stay
PHASE = "trap '' INT TERM; mktemp -d >/dev/null; setsid sleep {mark} & (setsid sleep {mark} &); {then}"
RUN = """
import run_tests
run_tests.PHASES["quick"] = [run_tests.Phase({{"one": ["sh", "-c", {phase!r}]}})]
raise SystemExit(run_tests.main("quick"))
"""


def running(mark: str) -> list[int]:
    """Return the processes with this number of seconds in their command line, without that which runs the phase."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if words[:1] == ["sleep"] and mark in words:
            found.append(process.pid)
    return found


def start(tmp_path: Path, mark: str, then: str) -> subprocess.Popen[str]:
    code = RUN.format(phase=PHASE.format(mark=mark, then=then))
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment |= {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT / "scripts")}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_tests_leave_no_process_and_no_folder(sign: signal.Signals, tmp_path: Path) -> None:
    mark = f"{3600 + os.getpid() % 1000}.{int(sign)}"
    process = start(tmp_path, mark, "sleep 3000")
    wait_until(lambda: len(running(mark)) == 2)
    process.send_signal(sign)
    _, printed = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, printed) == (130, "interrupted\n")
    assert running(mark) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("then", "code"), [("true", 0), ("false", 1)])
def test_phase_that_leaves_processes_behind_ends_with_them(then: str, code: int, tmp_path: Path) -> None:
    mark = f"{3600 + os.getpid() % 1000}.5{code}"
    process = start(tmp_path, mark, then)
    _, printed = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert running(mark) == []
    if code:
        (kept,) = tmp_path.iterdir()  # files of failed tests stay, and are named
        assert printed.startswith(f"files of the tests: {kept}\nfailed: one (see above; one test again: ")
    else:
        assert list(tmp_path.iterdir()) == []
