"""The host's own server with files of ours: checked, replaced, proven, put back, whatever goes wrong in between."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadbook.hosts import rollback
from ports import hold
from system_nginx import NEEDS_NGINX, SHELLS, OwnServer, deployed, digest, own_server, process
from waiting import wait_until

pytestmark = NEEDS_NGINX


@pytest.fixture
def own(lab, tmp_path, port) -> Iterator[OwnServer]:
    with own_server(lab, tmp_path, port) as server:
        yield server


@pytest.mark.fault(35)
def test_system_mode_detects_a_reload_that_did_not_happen(own, record_property):
    with (
        socket.create_server((own.host.address, 0)) as taken,
        deployed(own, listen=f"{own.host.address}:{taken.getsockname()[1]}") as instance,
    ):
        proof = instance.prove(own.host)
        assert proof.live is False
        assert "another server, or an older configuration" in proof.evidence
        assert "Address already in use" in proof.evidence
        assert own.page() == "their own"
    own.must_be_as_before()
    record_property("seen", "not live after 5 s, with the log's words; put back")


@pytest.mark.fault(35)
def test_system_mode_file_without_config_id_that_was_not_loaded_is_detected(own):
    with socket.create_server((own.host.address, 0)) as taken:
        at = f"{own.host.address}:{taken.getsockname()[1]}".encode()
        own_file = (own.tree / "nginx.conf").read_bytes()
        old = f"{own.host.address}:{own.port}".encode()
        with deployed(own, main=own_file.replace(old, at)) as instance:
            proof = instance.prove(own.host)
            assert proof.live is False
            assert "its processes are those of before" in proof.evidence
    own.must_be_as_before()


@pytest.mark.fault(39)
def test_system_mode_restarts_when_old_workers_drain_too_long(own, record_property):
    with socket.create_connection((own.host.address, own.port)) as slow:
        slow.sendall(b"GET /slow HTTP/1.0\r\n\r\n")
        slow.recv(100)
        main = own.pid()
        with deployed(own) as instance:
            begun = time.monotonic()
            proof = instance.prove(own.host)
            took_s = time.monotonic() - begun
            assert proof.live is True, proof.evidence
            assert "it was started anew" in proof.evidence
            assert instance.changes["own-nginx"] == "restarted"
            assert own.pid() != main
            assert proof.pids[0] == own.pid()
    own.must_be_as_before()
    record_property("seen", f"restarted after {took_s:.1f} s, recorded")


@pytest.mark.fault(38)
def test_system_mode_server_that_fails_to_return_is_reported_once(own, record_property):
    with socket.socket() as other, hold(address=own.host.address) as holder:
        free = holder.getsockname()
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(rollback.NotRestoredError) as left, deployed(own, listen=f"{free[0]}:{free[1]}"):
            _bind(other, (own.host.address, own.port))
        words = str(left.value)
        assert "nginx DOES NOT COME BACK" in words
        assert f"nginx -t -q -p {own.tree}/ -c {own.tree}/nginx.conf" in words
        kept = next((own.state / "kept").iterdir())
        assert f"{kept}/old" in words
        assert digest(own.tree) == own.before
        tried = (own.run / "error.log").read_text().count("still could not bind")
        with pytest.raises(rollback.NotRestoredError, match="DOES NOT COME BACK"):
            rollback.restore(own.host)
        time.sleep(0.5)
        assert (own.run / "error.log").read_text().count("still could not bind") == tried
    assert rollback.restore(own.host, retry=True) == [f"{own.tree} (nginx runs with its own files again)"]
    own.must_be_as_before()
    record_property("seen", "files back, commands and backup named; tried again by `loadbook restore` only")


def _bind(sock: socket.socket, at: tuple[str, int]) -> None:
    def is_bound() -> bool:
        with contextlib.suppress(OSError):
            sock.bind(at)
            sock.listen()
            return True
        return False

    wait_until(is_bound)


_CONTROLLER = """
import sys, time
from pathlib import Path
sys.path[:0] = {paths!r}
from loadbook.hosts.remote import connect
from loadbook.services import InstanceContext, SystemInstance, load_service, render
hosts, folder, port, name = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
host = connect(hosts, "web", name)
spec = load_service("own-nginx", [folder]).as_system()
rendered = render(spec, {{}}, InstanceContext.for_instance(host, name, port))
one = SystemInstance(host, spec, rendered, name=name, lease_s=60)
one.check()
print("checked", flush=True)
one.start()
one.ready(host)
one.prove(host)
print("proven", flush=True)
one.stop()
print("stopped", flush=True)
time.sleep(60)
"""


@pytest.mark.fault(36)
def test_system_mode_restores_after_controller_is_killed_at_any_time(own, record_property):
    """Between copy, backup, replacement, reload, proof and put-back: the host puts everything back by itself."""
    script = _CONTROLLER.format(paths=sys.path)
    after, many = [(word, k * 0.2) for word in ("checked", "proven") for k in range(5)], 0
    for number, (word, delay_s) in enumerate(after):
        argv = [sys.executable, "-c", script, str(own.hosts_file), str(own.tree.parent), str(own.port), f"own-{number}"]
        with process(argv, stdout=subprocess.PIPE) as controller:
            assert controller.stdout is not None
            while word not in controller.stdout.readline().decode():
                assert controller.poll() is None
            time.sleep(delay_s)
            controller.kill()
        many += bool(own.left())
        wait_until(lambda: not own.left())
        own.must_be_as_before()
    record_property("seen", f"{len(after)} instants, {many} with files replaced: tree byte-identical each time")


@pytest.mark.fault(36)
@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_system_mode_restores_after_host_processes_are_killed_at_every_write(own, tmp_path, shell, record_property):
    """As a crash of the host is: no trap runs. The hashes then decide what `restore` has to do."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"needs {shell[0]}")
    instance, kills = own.instance(), 0
    instance.check()
    for number in range(1, 40):
        job = tmp_path / f"job-{number}"
        _crashing(job, number)
        env = {**os.environ, "PATH": f"{job}:{os.environ['PATH']}", "LOADBOOK_STATE": str(own.state)}
        argv = [*shell, rollback.SCRIPT_NAME, "system", instance.rendered.context.dir]
        with process(argv, cwd=job, env=env, stderr=subprocess.DEVNULL) as running:
            wait_until(lambda running=running, job=job: running.poll() is not None or (job / "state").exists())
            done = running.poll() is None
        kills += not done
        rollback.restore(own.host)
        own.must_be_as_before()
        if done:
            break
    assert kills > 10
    instance.stop()
    record_property("seen", f"{shell[0]}: killed at each of {kills} writes: byte-identical")


@pytest.mark.fault(36)
def test_system_mode_restore_can_be_killed_at_every_write(own, tmp_path, record_property):
    instance, kills = own.instance(), 0
    instance.check()
    for number in range(1, 20):
        job, crash = tmp_path / f"job-{number}", tmp_path / f"crash-{number}"
        for folder, calls in ((job, 1000), (crash, number)):
            _crashing(folder, calls)
        env = {**os.environ, "LOADBOOK_STATE": str(own.state)}
        with process(["sh", rollback.SCRIPT_NAME, "system", instance.rendered.context.dir], cwd=job, env=env):
            wait_until((job / "state").exists)
        env["PATH"] = f"{crash}:{os.environ['PATH']}"
        with process(["sh", rollback.SCRIPT_NAME, "restore"], cwd=crash, env=env) as running:
            killed = running.wait(40) != 0
        kills += killed
        assert bool(own.left()) == killed
        rollback.restore(own.host)
        own.must_be_as_before()
        if not killed:
            break
    assert kills >= 3
    instance.stop()
    record_property("seen", f"killed at each of {kills} writes of the put-back: byte-identical")


def _crashing(job: Path, number: int) -> None:
    """Make a job's folder with a `sync` that, at its call of that number, ends the whole group first."""
    job.mkdir()
    (job / rollback.SCRIPT_NAME).write_text(rollback.rollback_script())
    (job / "sync").write_text(
        f'#!/bin/sh\necho >>"{job}/calls"\n[ "$(wc -l <"{job}/calls")" -lt {number} ] || kill -s KILL 0\n'
        f'exec {shutil.which("sync")} "$@"\n'
    )
    (job / "sync").chmod(0o755)
