"""A server that is frozen in mid-trial, and one that is not, over SSH under wrk."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from waiting import wait_until

if TYPE_CHECKING:
    from misbehaving_tools import Ran, Rig

pytestmark = [pytest.mark.lab, pytest.mark.alone]  # beside other tests the server may be too quiet to tell
WRK = 'tool = "wrk"\nconnections = 10\n'
FROZEN_S = 1.5


def freeze_server(rig: Rig) -> None:
    """Stop the test's own nginx, by its process ids, a second after the load began."""
    wait_until(lambda: (rig.bin / "loading").exists(), 30)
    time.sleep(1.0)
    pids = rig.processes("nginx")
    assert pids
    for sign, pause_s in ((signal.SIGSTOP, FROZEN_S), (signal.SIGCONT, 0.0)):
        for pid in pids:
            os.kill(pid, sign)
        time.sleep(pause_s)


def run_one_trial(rig: Rig) -> Ran:
    # of the calls of wrk (its version, the warm-up, the measurement) only the last lasts 4 s
    rig.fake("wrk", f'case "$*" in *-d4s*) touch {rig.bin}/loading;; esac; exec "$real" "$@"')
    rig.study(WRK, service="nginx")
    file = rig.layout.studies / "rude.toml"
    file.write_text(file.read_text().replace("duration_s = 1\n", "duration_s = 4\n"))
    ran = rig.again()
    assert [status for status, _ in ran.ends] == ["ok"]
    return ran


def test_a_server_that_was_frozen_for_a_while_makes_its_trial_invalid(rig: Rig, record_property) -> None:
    thread = threading.Thread(target=freeze_server, args=(rig,))
    thread.start()
    ran = run_one_trial(rig)
    thread.join(60)
    record_property("seen", ran.said("stall"))
    assert "stall" in ran.gates("invalid")
    assert not any(row["valid"] for row in ran.table("trials"))


def test_a_server_that_serves_all_the_time_has_no_stall(rig: Rig) -> None:
    ran = run_one_trial(rig)
    assert ran.said("stall") == ""
