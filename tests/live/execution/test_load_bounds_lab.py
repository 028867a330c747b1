"""Bounds in real runs over SSH: a gigabyte of output, clocks that are wrong, samplers that die, other locales."""

from __future__ import annotations

import time

import pytest

from loadbook.execution.load import LoadJobs

WRK = 'tool = "wrk"\nconnections = 10\n'
SAMPLED = WRK + "[monitors]\ninterval_s = 0.1\n"


@pytest.mark.fault(9)
@pytest.mark.parametrize("jump_s", [30.0, -3600.0])
def test_controller_clock_jump_makes_the_trial_partial_with_correct_durations(
    misbehaving_lab, monkeypatch, jump_s, record_property
):
    real, jumped, before = time.time, [0.0], LoadJobs.wait

    def wait(load, host):
        jumped[0] = jump_s  # not the machine's clock: what this process is told
        before(load, host)

    monkeypatch.setattr(time, "time", lambda: real() + jumped[0])
    monkeypatch.setattr(LoadJobs, "wait", wait)
    ran = misbehaving_lab.run(WRK)
    ((status, reason),) = ran.ends
    assert (status, reason) == ("partial", f"the controller's clock jumped by {jump_s:.1f} s during the trial")
    (record,) = ran.records
    assert abs(record.duration_s - sum(record.phases_s.values())) < abs(jump_s) / 2
    assert 0.95 < record.window[1] - record.window[0] < 1 + abs(jump_s) / 2
    assert not any(row["valid"] for row in ran.table("trials"))
    record_property("seen", reason)


SKEWED = """
skew=$(cat {bin}/skew 2>/dev/null)
case $PWD in */driver/work*) [ -z "$skew" ] || exec /bin/date -d "$skew seconds" "$@" ;; esac
exec /bin/date "$@"
"""


@pytest.mark.fault(32)
def test_host_clock_offset_is_measured_and_metrics_are_shifted(misbehaving_lab, record_property):
    (misbehaving_lab.bin / "skew").write_text("3600")
    misbehaving_lab.fake("date", SKEWED.format(bin=misbehaving_lab.bin), probe="never")
    misbehaving_lab.fake("perl", "exit 1", probe="never")  # the shell's sampler asks the fake clock
    ran = misbehaving_lab.run(SAMPLED)
    (record,) = ran.records
    assert [status for status, _ in ran.ends] == ["ok"]
    offset_s = record.clocks["driver"].offset_before_s
    # an offset is known to half of its round trip
    assert offset_s == pytest.approx(3600, abs=record.clocks["driver"].rtt_before_s)
    web = record.clocks["web"]
    assert web.offset_before_s == pytest.approx(0, abs=web.rtt_before_s)
    assert record.started < record.window[0] < record.window[1] < record.started + record.duration_s
    spans = {host: [r["t_s"] for r in ran.table("traces") if r["host"] == host] for host in ("driver", "web")}
    for seen in spans.values():
        assert -record.duration_s < min(seen) < max(seen) < record.duration_s
    assert "clock" not in ran.gates("doubt")
    record_property(
        "seen", f"offset of {offset_s:.3f} s measured, traces begin {min(spans['driver']):.2f} s from the load"
    )
