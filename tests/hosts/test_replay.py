"""A recorded run plays its jobs back, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadbook.core.errors import DataError, HostError, HostTimeoutError
from loadbook.hosts.host import Host, Job
from loadbook.hosts.monitors import parse, sampler_job
from loadbook.hosts.replay import ReplayHost
from loadbook.records.manifest import read

RUN = next(Path("tests/fixtures/recorded-run").glob("*/"))
TRIAL = sorted(RUN.glob("trials/*/trial.json"))[0].parent


@pytest.fixture
def driver(tmp_path) -> Host:
    host = ReplayHost(RUN, "driver", tmp_path / "work")
    host.open()
    return host


def test_a_load_leaves_what_was_recorded(driver, tmp_path):
    record = read(TRIAL)
    load = f"any-{TRIAL.name}-a1-load"
    driver.start(Job(load, (("sh", "-c", "warm-up"), tuple(record.drivers[0].argv)), 60))
    assert driver.wait(load, timeout_s=1) == record.drivers[0].rc
    digest = driver.fetch(f"jobs/{load}/stdout.2", tmp_path / "stdout", max_bytes=10**6)
    assert digest == record.files[record.drivers[0].stdout].sha256
    times = [float(word) for word in driver.get(f"jobs/{load}/times.2", max_bytes=100).split()]
    assert times == [record.drivers[0].started_host, record.drivers[0].ended_host]
    assert driver.clock().offset_s == record.clocks["driver"].offset_before_s
    with pytest.raises(HostError, match="already a job"):
        driver.start(Job(load, (("wrk",),), 60))
    driver.remove(f"jobs/{load}")
    assert not driver.exists(f"jobs/{load}/rc")


def test_monitors_and_services_run_until_they_are_stopped(driver):
    for name, job in {
        "monitor": sampler_job(f"r-{TRIAL.name}-monitor", interval_s=0.5, limit_s=5),
        "web": Job(f"r-{TRIAL.name}-web", (("nginx",),), 60),
    }.items():
        driver.start(job)
        assert driver.state(job.name).running
        with pytest.raises(HostTimeoutError):
            driver.wait(job.name, timeout_s=0.1)
        driver.stop(job.name)
        assert driver.state(job.name).rc == 143
        assert driver.exists(f"jobs/{job.name}/stdout.1") is (name == "monitor")
    assert parse(driver.get(f"jobs/r-{TRIAL.name}-monitor/stdout.1", max_bytes=10**7)).rows


def test_what_was_not_recorded_is_refused(driver, tmp_path):
    with pytest.raises(HostError, match="runs nothing"):
        driver.script("true", timeout_s=1)
    with pytest.raises(HostError, match="asks no server"):
        driver.http_get("127.0.0.1", 80, "/", timeout_s=1)
    with pytest.raises(HostError, match="no such trial"):
        driver.start(Job("r-t9999-load", (("wrk",),), 60))
    with pytest.raises(DataError, match="no recorded trial"):
        ReplayHost(tmp_path, "driver", tmp_path)
