"""A recorded run plays back what its hosts answered and what their jobs left behind, byte for byte; nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadbook.core.errors import CommandError, DataError, HostError, HostTimeoutError
from loadbook.host_metrics.sampler import parse_sampler
from loadbook.hosts.host import CommandResult, Host, HttpResponse, Job
from loadbook.hosts.replay import (
    MAX_RECORDED_BODY_BYTES,
    RecordedRun,
    ReplayHost,
    Transcript,
    call_key,
    record_host,
    transcript_name,
)
from loadbook.store.trial_record import read_trial
from loadbook.study.plan import PlannedTrial
from recorded_run import FIXTURE

RUN = next(FIXTURE.glob("*/"))
TRIAL = sorted(RUN.glob("trials/*/trial.json"))[0].parent
RECORD = read_trial(TRIAL)
# another run that does the same treatment of the same block in another place of its plan
PLANNED = PlannedTrial("t0077", RECORD.treatment, RECORD.block, 77)
NAME = "r9-t0077-a3"


def host_of(alias, folder) -> Host:
    host = ReplayHost(RecordedRun(RUN), alias, f"{alias}.test", folder, "r9")
    host.open()
    host.set_trial(PLANNED)
    return host


@pytest.fixture
def driver(tmp_path) -> Host:
    return host_of("driver", tmp_path / "driver")


@pytest.fixture
def web(tmp_path) -> Host:
    return host_of("web", tmp_path / "web")


def recorded_start(alias, what) -> tuple[tuple[str, ...], int]:
    """Return the command of a job that was started in the recorded trial, and its process id."""
    for line in (TRIAL / transcript_name(alias)).read_text().splitlines():
        entry = json.loads(line)
        if entry["asked"][:2] == ["start", f"{{trial}}-{what}"]:
            return tuple(entry["asked"][2:]), entry["answer"]
    raise LookupError(what)


def test_replayed_load_leaves_the_recorded_files(driver, tmp_path):
    measured = RECORD.drivers[0]
    load = f"{NAME}-load"
    pid = driver.start(Job(load, (("sh", "-c", "warm-up"), tuple(measured.argv)), 60))
    assert pid == recorded_start("driver", "load")[1]
    assert driver.wait(load, timeout_s=1) == measured.rc
    digest = driver.fetch(f"jobs/{load}/stdout.2", tmp_path / "stdout", max_bytes=10**6)
    assert digest == RECORD.files[measured.stdout].sha256
    times = [float(word) for word in driver.get(f"jobs/{load}/times.2", max_bytes=100).split()]
    assert times == [measured.started_host, measured.ended_host]
    with pytest.raises(HostError, match="already a job"):
        driver.start(Job(load, (tuple(measured.argv),), 60))
    driver.remove(f"jobs/{load}")
    assert not driver.exists(f"jobs/{load}/rc")
    driver.close()
    assert not Path(driver.workdir).exists()


@pytest.mark.parametrize("what", ["monitor", "web"])
def test_replayed_monitors_and_services_run_until_stopped(web, what):
    job = Job(f"{NAME}-{what}", (recorded_start("web", what)[0],), 60)
    web.start(job)
    assert web.state(job.name).running
    with pytest.raises(HostTimeoutError):
        web.wait(job.name, timeout_s=0.1)
    web.stop(job.name)
    assert web.state(job.name).rc == 143
    assert web.exists(f"jobs/{job.name}/stdout.1") is (what == "monitor")
    if what == "monitor":
        assert parse_sampler(web.get(f"jobs/{job.name}/stdout.1", max_bytes=10**7)).rows


def test_replayed_clock_and_http_answers_keep_their_order(driver):
    clock = RECORD.clocks["driver"]
    offsets = [driver.clock().offset_s for _ in range(3)]
    assert offsets == [clock.offset_before_s, clock.offset_after_s, clock.offset_after_s]
    target = RECORD.drivers[0].argv[-1].removeprefix("http://")
    address, _, rest = target.partition(":")
    port, _, path = rest.partition("/")
    answer = driver.http_get(address, int(port), f"/{path}", timeout_s=1)
    assert (answer.status, len(answer.body)) == (RECORD.response_before.status, RECORD.response_before.bytes)


def test_replayed_server_answers_with_the_recorded_token(web):
    token = web.token(f"{NAME}-web")
    assert f"{RECORD.services[0].config_sha256[:16]}-{token} answered" not in RECORD.services[0].live_evidence
    assert f"answered {RECORD.services[0].config_sha256[:16]}-{token}" in RECORD.services[0].live_evidence


def test_replay_refuses_and_names_calls_that_were_not_recorded(driver, tmp_path):
    where = rf"host driver: replay of run {RUN.name}, trial {TRIAL.name}: not recorded: "
    for ask in (
        lambda: driver.run(["uptime"], timeout_s=1),
        lambda: driver.script("true", timeout_s=1),
        lambda: driver.http_get("127.0.0.1", 80, "/", timeout_s=1),
        lambda: driver.start(Job(f"{NAME}-load", (("wrk", "-c1", "http://elsewhere/"),), 60)),
    ):
        with pytest.raises(HostError, match=where):
            ask()
    with pytest.raises(HostError, match=r"t0001: run .* has no trial of baseline in block 99"):
        driver.set_trial(PlannedTrial("t0001", "baseline", 99, 1))
    with pytest.raises(DataError, match="no recorded trial"):
        RecordedRun(tmp_path)


class Answering:
    """A host that answers everything, as far as a tape asks."""

    workdir = "/w"

    def run(self, argv, *, timeout_s):
        return CommandResult(3, b"\xff\x00\n", "é".encode())

    def http_get(self, address, port, path, *, timeout_s):
        return HttpResponse(200, {}, b"x" * (MAX_RECORDED_BODY_BYTES + (path == "/large")))

    def set_trial(self, planned):
        pass


def test_transcript_restores_bytes_and_marks_bodies_too_large_to_record(tmp_path):
    host = record_host(Answering(), "r1")  # type: ignore[arg-type]
    host.run(["cat", "/w/jobs/r1-t0001-a2-web/x"], timeout_s=1)
    host.http_get("a", 1, "/", timeout_s=1)
    host.http_get("a", 1, "/large", timeout_s=1)
    (tmp_path / "tape").write_bytes(host.take_transcript())
    assert host.take_transcript() == b""
    tape = Transcript(tmp_path / "tape")
    requested = call_key("run", ["cat", "/other/jobs/r2-t0009-a1-web/x"], "/other", "r2")
    assert tape.command_result(requested) == (3, b"\xff\x00\n", "é".encode())
    assert len(tape.http_response(("http_get", "a:1/")).body) == MAX_RECORDED_BODY_BYTES
    with pytest.raises(KeyError):
        tape.http_response(("http_get", "a:1/large"))
    (tmp_path / "tape").write_text("{}\n")
    with pytest.raises(DataError, match="tape:1: not an answer"):
        Transcript(tmp_path / "tape")


def test_replayed_command_failure_raises_the_recorded_error(driver, monkeypatch):
    monkeypatch.setattr(Transcript, "command_result", lambda tape, requested: CommandResult(1, b"", b"no"))
    assert driver.run(["false"], timeout_s=1).rc == 1
    with pytest.raises(CommandError, match="exit code 1"):
        driver.run(["false"], timeout_s=1, check=True)
