"""Bounds in real runs over SSH: a gigabyte of output, clocks that are wrong, samplers that die, other locales."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from loadbook.hosts import sshd
from loadbook.tools.base import MAX_REPORT_BYTES
from loopback_labs import own_lab
from misbehaving_tools import MisbehavingLab, Ran, home_for_fakes
from peak_memory import MEASURED
from recorded_run import with_studies
from waiting import PATIENCE_S, wait_until

WRK = 'tool = "wrk"\nconnections = 10\n'
SAMPLED = WRK + "[monitors]\ninterval_s = 0.1\n"
GIB = 1 << 30
MAX_RSS_BYTES = 500_000_000


def peak_bytes(misbehaving_lab: MisbehavingLab, *words: str) -> int:
    """Call `loadbook WORDS` in a process of its own and return the most memory that it ever had."""
    environment = os.environ | {"LOADBOOK_HOME": str(misbehaving_lab.layout.root)}
    done = subprocess.run([sys.executable, "-c", MEASURED, *words], env=environment, capture_output=True, timeout=200)
    return int(done.stdout.split()[-1])


@pytest.mark.fault(28, 57)
def test_gigabyte_of_tool_output_is_truncated_and_fails_the_trial(misbehaving_lab, record_property):
    block = misbehaving_lab.bin / "block"
    block.write_bytes(os.urandom(1 << 14).hex().encode() * (1 << 11))
    misbehaving_lab.fake("wrk", f'"$real" "$@"; for k in $(seq {GIB // block.stat().st_size}); do cat {block}; done')
    misbehaving_lab.study(WRK + "timeout_s = 60\n")  # so long, a gigabyte may take to be written
    run = ["run", "rude", "--hosts", str(misbehaving_lab.lab.hosts_file)]
    peaks = [peak_bytes(misbehaving_lab, *run)]
    paths = misbehaving_lab.layout.run("rude", misbehaving_lab.layout.resolve_run("rude"))
    peaks += [peak_bytes(misbehaving_lab, "ingest", "rude"), peak_bytes(misbehaving_lab, "verify", "rude")]
    (folder,) = paths.failed.iterdir()
    ((status, reason),) = Ran(paths).ends
    assert status == "tool_failed"
    (there,) = [int(word.replace(",", "")) for word in reason.split() if word.startswith("1,07")]
    assert there > GIB
    assert f"stdout-driver has {there:,} bytes: only the first {MAX_REPORT_BYTES:,} are kept" in reason
    assert (folder / "stdout-driver").stat().st_size == MAX_REPORT_BYTES
    assert (folder / "stdout-driver").read_bytes().startswith(b"Running 1s test")
    assert max(peaks) < MAX_RSS_BYTES
    record_property("seen", f"tool_failed, {MAX_REPORT_BYTES:,} bytes kept; at most {max(peaks) // 10**6} MB of memory")


SKEWED = """
skew=$(cat {bin}/skew 2>/dev/null)
case $PWD in */driver/work*) [ -z "$skew" ] || exec /bin/date -d "$skew seconds" "$@" ;; esac
exec /bin/date "$@"
"""


@pytest.mark.fault(32)
def test_host_clock_step_during_a_trial_is_flagged(misbehaving_lab, record_property):
    misbehaving_lab.fake("date", SKEWED.format(bin=misbehaving_lab.bin), probe="never")
    misbehaving_lab.fake("perl", "exit 1", probe="never")  # the shell's sampler asks the fake clock
    misbehaving_lab.fake("wrk", f'"$real" "$@"; rc=$?; echo 2 >{misbehaving_lab.bin}/skew; exit $rc')
    ran = misbehaving_lab.run(WRK)
    assert "clock" in ran.gates("doubt")
    assert "the host's clock moved by 2.0" in ran.printed("clock")
    record_property("seen", ran.printed("clock"))


def samplers(lab_folder: Path) -> list[int]:
    """Processes of samplers that run in the driver's work folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[1:2] == [b"sampler.pl"]:
                found += (
                    [int(folder.name)] if str((folder / "cwd").readlink()).startswith(f"{lab_folder}/driver/") else []
                )
        except OSError:
            continue
    return found


def at_load(misbehaving_lab: MisbehavingLab, action) -> threading.Thread:
    """Do something to the driver's sampler when the load has begun."""
    misbehaving_lab.fake("wrk", f'touch {misbehaving_lab.bin}/loading; exec "$real" "$@"')

    def wait() -> None:
        # the warm-up is a call of its own
        wait_until(lambda: (misbehaving_lab.bin / "loading").exists())
        time.sleep(0.3)
        action(samplers(misbehaving_lab.lab.folder))

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.fault(31)
def test_trial_with_a_killed_sampler_counts_with_flagged_host_metrics(misbehaving_lab, record_property):
    killed: list[int] = []

    def kill(pids: list[int]) -> None:
        killed.extend(pids)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    thread = at_load(misbehaving_lab, kill)
    ran = misbehaving_lab.run(SAMPLED)
    thread.join(60)
    assert len(killed) == 1
    assert [status for status, _ in ran.ends] == ["ok"]
    assert [row["valid"] for row in ran.table("trials")] == [True]
    assert "monitor_gaps" in ran.gates("doubt")
    last = {host: max(row["t_s"] for row in ran.table("traces") if row["host"] == host) for host in ("driver", "web")}
    assert last["driver"] < last["web"] > 0.85
    record_property("seen", f"ok; {ran.printed('monitor_gaps')}")


@pytest.mark.fault(31)
def test_gap_in_sampled_host_metrics_is_not_interpolated(misbehaving_lab):
    def stop(pids: list[int]) -> None:
        for sign, pause in ((signal.SIGSTOP, 0.5), (signal.SIGCONT, 0)):
            for pid in pids:
                os.kill(pid, sign)
            time.sleep(pause)

    thread = at_load(misbehaving_lab, stop)
    ran = misbehaving_lab.run(SAMPLED)
    thread.join(60)
    assert [status for status, _ in ran.ends] == ["ok"]
    assert "monitor_gaps" in ran.gates("doubt")
    times = sorted(
        {row["t_s"] for row in ran.table("traces") if row["host"] == "driver" and row["metric"] == "cpu_busy"}
    )
    assert max(b - a for a, b in itertools.pairwise(times)) > 0.4


@pytest.mark.fault(33)
def test_tools_run_in_the_c_locale_and_utc(tmp_path, monkeypatch, record_property):
    own = 'SetEnv "JMETER_HOME={jmeter}"'
    german = '"LC_ALL=de_DE.UTF-8" "LANG=de_DE.UTF-8" "LC_NUMERIC=de_DE.UTF-8" "TZ=Asia/Kolkata"'
    config = sshd.CONFIG_TEMPLATE.replace(own, f"{own} {german}")
    assert config != sshd.CONFIG_TEMPLATE
    monkeypatch.setattr(sshd, "CONFIG_TEMPLATE", config)
    with home_for_fakes(tmp_path / "fakes") as bin_, own_lab() as lab:
        misbehaving_lab = MisbehavingLab(lab, bin_, with_studies(tmp_path / "home"))
        misbehaving_lab.fake("wrk", f'env >{bin_}/seen; date >>{bin_}/seen; exec "$real" "$@"')
        ran = misbehaving_lab.run(SAMPLED)
        key, where = lab.folder / "user_key", lab.status()[0]
        login = ["ssh", "-F", "none", "-i", str(key), "-p", str(where.port), "-o", "BatchMode=yes",
                 "-o", f"UserKnownHostsFile={lab.folder}/known_hosts", where.address, "echo $LC_ALL $TZ"]  # fmt: skip
        printed = subprocess.run(login, capture_output=True, text=True, timeout=PATIENCE_S).stdout.split()
        seen = (bin_ / "seen").read_text().splitlines()
    assert printed == ["de_DE.UTF-8", "Asia/Kolkata"]
    assert {"LC_ALL=C", "TZ=UTC"} <= set(seen)
    assert " UTC " in seen[-1]
    assert [status for status, _ in ran.ends] == ["ok"]
    (record,) = ran.records
    assert abs(record.clocks["driver"].offset_before_s) < 900  # zones differ by a quarter of an hour or more
    assert {row["host"] for row in ran.table("traces")} == {"driver", "web"}
    record_property("seen", f"the login has {' '.join(printed)}; wrk was given LC_ALL=C TZ=UTC")
