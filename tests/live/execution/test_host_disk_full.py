"""A host's disk fills up in mid-trial, for real: a small tmpfs where the driver works (as root), or a limit."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from controller_processes import jobs_left
from full_host_disk import FILL, WRK, disk_of_its_own
from loadbook.execution.host_state import HOST_MIN_BYTES
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loopback_labs import own_lab
from misbehaving_tools import MisbehavingLab, Ran, home_for_fakes
from recorded_run import with_studies

pytestmark = pytest.mark.fault(30)


@pytest.fixture
def misbehaving_lab(tmp_path) -> Iterator[MisbehavingLab]:
    with home_for_fakes(tmp_path / "fakes") as bin_, own_lab() as lab:
        yield MisbehavingLab(lab, bin_, with_studies(tmp_path / "home"))


@pytest.fixture
def small(misbehaving_lab) -> Iterator[MisbehavingLab]:
    with disk_of_its_own(misbehaving_lab):
        yield misbehaving_lab


@pytest.mark.root
@pytest.mark.parametrize("ends", ["0", "1"])
def test_host_disk_that_becomes_full_during_load_fails_only_that_trial(small, ends, record_property):
    once = f'[ -e {small.bin}/done ] && exec "$real" "$@"; touch {small.bin}/done'
    small.fake("wrk", f'{once}\n{FILL.format(file="own")}\n"$real" "$@"; exit {ends}')
    ran = small.run(WRK, blocks=2)
    (status, reason), (second, _) = ran.ends
    assert (status, second) == ("tool_failed", "ok")
    assert "host driver: remote disk full: " in reason
    assert str(small.lab.folder / "driver") in reason
    (kept,) = ran.paths.failed.iterdir()
    assert (kept / "trial.json").is_file()
    assert [row["valid"] for row in ran.table("trials")] == [False, True]
    left = os.statvfs(small.lab.folder / "driver" / "work")
    assert left.f_bavail * left.f_frsize > HOST_MIN_BYTES
    record_property("seen", reason.replace(str(small.lab.folder), "..."))


INTERLEAVED = """
include = "aa.toml"
name = "small"
execution = "interleaved"
blocks = 2

[workload]
warmup_s = 0

[reset]
time_wait_sockets = 1000000

[validity]
driver_cpu = 1.0
"""


@pytest.mark.root
def test_host_disk_that_becomes_full_in_an_interleaved_block_fails_only_that_block(small, record_property):
    once = f'case "$PWD" in *-load/arm1) ;; *) exec "$real" "$@";; esac\n[ -e {small.bin}/done ] && exec "$real" "$@"'
    small.fake("wrk", f'{once}\ntouch {small.bin}/done\n{FILL.format(file="own")}\n"$real" "$@"')
    (small.layout.studies / "small.toml").write_text(INTERLEAVED)
    run = run_study(small.layout, RunRequest("small", small.lab.hosts_file))
    ran = Ran(small.layout.run("small", run))
    first, second = ran.ends[:2], ran.ends[2:]
    assert any("remote disk full" in (reason or "") for _, reason in first)
    assert [status for status, _ in second] == ["ok", "ok"]
    assert len(ran.ends) == 4
    assert jobs_left(small.lab) == []
    record_property("seen", str(first).replace(str(small.lab.folder), "..."))


def test_host_output_beyond_quota_fails_the_trial_and_is_kept(misbehaving_lab, record_property):
    misbehaving_lab.fake("wrk", 'ulimit -f 8; "$real" "$@"; exec head -c 100000 /dev/zero')
    ran = misbehaving_lab.run(WRK)
    ((status, reason),) = ran.ends
    assert status == "tool_failed"
    assert "SIGXFSZ" in reason
    (folder,) = ran.folders
    assert 0 < (folder / "stdout-driver").stat().st_size <= 8192
    record_property("seen", reason)
