"""Tools and servers that misbehave, in real runs over SSH: how the trial ends, which gate speaks, what is kept."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from loadbook.core.units import format_percent
from misbehaving_tools import HEADER, MisbehavingLab
from waiting import wait_until

FIXTURES = Path(__file__).parents[2] / "fixtures"
WRK = 'tool = "wrk"\nconnections = 10\n'
AB = 'tool = "ab"\nconnections = 10\n'
HTTPERF = 'tool = "httperf"\nmodel = "open"\n'


@pytest.mark.fault(22)
@pytest.mark.parametrize("tool", [WRK, AB], ids=["wrk", "ab"])
@pytest.mark.parametrize("service", ["nginx", "rude"])
def test_trial_with_only_errors_is_invalid_despite_exit_code_0(misbehaving_lab, tool, service, record_property):
    role = 'config = "own.conf"' if service == "nginx" else ""
    ran = misbehaving_lab.run(tool + HEADER, service=service, role=role)
    (record,) = ran.records
    assert record.drivers[0].rc == 0
    assert record.response_after.status == 200
    assert record.status == "invalid"
    assert ran.ends == [("invalid", record.reason)]
    assert re.search(r"[\d,]+ of [\d,]+ responses were (errors|not 2xx)", record.reason)
    assert f"({format_percent(1, 2, signed=False)})" in record.reason
    assert "error_responses" in ran.gates()
    assert [row["valid"] for row in ran.table("trials")] == [False]
    answered = sum(row["value"] for row in ran.table("measurements") if row["metric"] == "requests_per_s")
    record_property("seen", f"{answered:,.0f} errors a second are invalid")


@pytest.mark.fault(22)
@pytest.mark.parametrize(
    ("mood", "load", "gate", "words"),
    [
        ("slow", WRK, "zero_work", "the tool completed no request"),
        ("truncated", WRK, "socket_errors", "attempts failed"),
        ("reset", WRK, "socket_errors", "attempts failed"),
        ("reset", AB, "socket_errors", "attempts failed"),
        ("longer", AB, "socket_errors", "attempts failed"),
    ],
    ids=["slow", "truncated", "reset", "reset-ab", "longer-ab"],
)
def test_trial_with_slow_truncated_or_reset_responses_is_invalid(misbehaving_lab, mood, load, gate, words):
    ran = misbehaving_lab.run(load + HEADER, role=f'vars = {{ mood = "{mood}" }}')
    ((status, reason),) = ran.ends
    assert status == "invalid"
    assert words in reason
    assert gate in ran.gates()
    assert words in ran.printed(gate)


@pytest.mark.fault(23)
def test_httperf_trial_with_refused_connections_is_invalid(misbehaving_lab, record_property):
    load = f"{HTTPERF}rate_per_s = 50\n{HEADER}"
    ran = misbehaving_lab.run(load, role='vars = { mood = "gone" }')
    (record,) = ran.records
    printed = (ran.folders[0] / "stdout-driver").read_text()
    # the kernel resets a connection that waits in the queue of a listener which is closed
    counts = re.search(r"connrefused (\d+) connreset (\d+)", printed)
    refused, reset = int(counts[1]), int(counts[2])
    assert record.drivers[0].rc == 0
    assert refused > 0 and refused + reset >= 45, printed
    assert ran.ends == [("invalid", record.reason)]
    assert "the tool completed no request" in record.reason
    assert {"zero_work", "socket_errors"} <= ran.gates()
    record_property("seen", f"{refused} of 50 refused, {reset} reset, exit code 0: invalid")


@pytest.mark.fault(24)
@pytest.mark.parametrize(
    ("tool", "case", "load"),
    [
        ("ab", "2.3--port_range_exhausted_netns", AB),
        ("httperf", "0.9.0--addrunavail_netns", f"{HTTPERF}rate_per_s = 200\n"),
    ],
    ids=["ab", "httperf"],
)
def test_trial_without_free_ports_is_invalid_with_the_remedy(misbehaving_lab, tool, case, load, record_property):
    """What the real tools printed in a namespace of few ports (see the root test) is printed again."""
    printed = {name: FIXTURES / tool / f"{case}.{name}" for name in ("stdout", "stderr", "rc")}
    code = printed["rc"].read_text().strip() if printed["rc"].exists() else "0"
    displayed = f"cat {printed['stdout']}; [ ! -e {printed['stderr']} ] || cat {printed['stderr']} >&2; exit {code}"
    misbehaving_lab.fake(tool, displayed, probe="-V")
    ran = misbehaving_lab.run(load)
    ((status, reason),) = ran.ends
    assert status == "invalid", reason
    assert "net.ipv4.ip_local_port_range" in reason
    assert "ports_exhausted" in ran.gates()
    record_property("seen", f"{tool}: as printed in a namespace of few ports")


@pytest.mark.fault(25)
def test_trial_below_its_offered_rate_is_invalid(misbehaving_lab, record_property):
    ran = misbehaving_lab.run(f"{HTTPERF}rate_per_s = 60000\n", service="nginx")
    ((status, reason),) = ran.ends
    assert status == "invalid"
    assert "failed on the driver itself" in reason
    assert "driver_limits" in ran.gates()
    assert "offered_shortfall" in ran.gates("doubt")
    record_property("seen", ran.printed("offered_shortfall").split(":")[0])


def strike(misbehaving_lab: MisbehavingLab, sign: int) -> threading.Thread:
    """Send a signal to the first load generator that appears, by its process id."""

    def wait_and_strike() -> None:
        wait_until(lambda: misbehaving_lab.processes("wrk"))
        time.sleep(0.2)
        for pid in misbehaving_lab.processes("wrk"):
            os.kill(pid, sign)

    thread = threading.Thread(target=wait_and_strike)
    thread.start()
    return thread


@pytest.mark.fault(27)
@pytest.mark.parametrize(
    ("sign", "name"), [(signal.SIGKILL, "SIGKILL, as the kernel does"), (signal.SIGSEGV, "SIGSEGV")]
)
def test_tool_killed_by_a_signal_is_tool_failed(misbehaving_lab, sign, name):
    killer = strike(misbehaving_lab, sign)
    ran = misbehaving_lab.run(WRK)
    killer.join()
    ((status, reason),) = ran.ends
    assert status == "tool_failed"
    assert f"host driver: wrk was killed by signal {int(sign)} ({name}" in reason
    assert f"exit code {128 + sign}" in reason
    (record,) = ran.records
    assert (record.attempt, record.drivers[0].rc, record.reconnects) == (1, 128 + sign, 0)
    assert (ran.folders[0] / "stdout-driver").is_file()
