"""The host's own server with files of ours: checked, replaced, proven, put back, whatever goes wrong in between."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadbook.core.errors import UsageError
from loadbook.hosts import rollback
from loadbook.hosts.remote import connect
from loadbook.services import ServiceError, load_service, system
from system_nginx import OwnServer, digest, end, own_server, process
from waiting import wait_until

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not there: apt-get install nginx-light"),
]
SHELLS = [["dash"], ["bash"], ["busybox", "sh"]]


@pytest.fixture
def own(lab, tmp_path, port) -> Iterator[OwnServer]:
    with own_server(lab, tmp_path, port) as server:
        yield server


@contextlib.contextmanager
def deployed(own: OwnServer, name: str = "own-web", main: bytes | None = None, **values: str | int):
    """Yield the proven instance; it is stopped if the block does not."""
    instance = own.instance(name, main, **values)
    try:
        instance.check()
        instance.start()
        instance.ready(own.host)
        yield instance
    finally:
        instance.stop()


@pytest.mark.fault(36)
def test_system_mode_trial_changes_and_restores_the_server(own):
    main = own.pid()
    with deployed(own, workers=3) as instance:
        proof = instance.prove(own.host)
        assert proof.live is True, proof.evidence
        assert "no process of before is left" in proof.evidence
        assert proof.pids[0] == main
        assert len(proof.pids) == 4
        assert own.page() == "loadbook"
        assert (own.tree / "nginx.conf").stat().st_mode & 0o777 == 0o640
        assert instance.changes["own-nginx"] == "reloaded"
        assert f"{own.tree}/loadbook/id.conf" in instance.changes
        kept = next((own.state / "kept").iterdir())
        assert kept.stat().st_mode & 0o077 == 0
    own.must_be_as_before()
    assert own.pid() == main


def test_system_mode_starts_and_stops_a_server_that_was_down(own):
    end(own.run / "nginx.pid")
    with deployed(own) as instance:
        assert instance.prove(own.host).live is True
        pid = own.pid()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), 5)
    assert digest(own.tree) == own.before
    assert own.left() == []


@pytest.mark.fault(34)
@pytest.mark.parametrize("wrong", ["our template", "their file"])
def test_system_mode_syntax_error_fails_in_the_staged_copy(own, wrong, record_property):
    main = b"events {}\nhttp { include no-such.conf; }\n" if wrong == "their file" else None
    instance = own.instance(main=main, broken="on" if main is None else "off")
    with pytest.raises(ServiceError, match=r"refuses its configuration.*nothing was replaced") as refused:
        instance.check()
    assert "nonsense" in str(refused.value) or "no-such.conf" in str(refused.value)
    assert not (own.state / "undo").exists()
    instance.stop()
    own.must_be_as_before()
    record_property("seen", "refused in a copy of the tree, the server's words quoted")


@pytest.mark.fault(35)
@pytest.mark.long
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


def test_system_mode_file_without_config_id_is_proven_by_new_processes(own, monkeypatch):
    own_file = (own.tree / "nginx.conf").read_bytes().replace(b"their own", b"their new")
    with deployed(own, main=own_file) as instance:
        proof = instance.prove(own.host)
        assert proof.live is None
        assert "no process of before is left" in proof.evidence
        assert own.page() == "their new"
    own.must_be_as_before()


@pytest.mark.fault(35)
@pytest.mark.long
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
@pytest.mark.long
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


@pytest.mark.fault(37)
def test_system_mode_keeps_and_reports_a_file_edited_by_somebody_else(own, record_property):
    with pytest.raises(rollback.NotRestoredError) as left, deployed(own):
        with (own.tree / "nginx.conf").open("a") as file:
            file.write("# mine, do not touch\n")
        theirs = (own.tree / "nginx.conf").read_text()
    words = str(left.value)
    assert f"edited by somebody else meanwhile, and left alone: {own.tree}/nginx.conf" in words
    assert "loadbook restore" in words
    shown = Path(next(word for word in words.split() if word.endswith("/nginx.conf/diff")))
    assert "+# mine, do not touch" in shown.read_text()
    assert (own.tree / "nginx.conf").read_text() == theirs
    # it is told every time, and nothing else is changed on top of it
    with pytest.raises(rollback.NotRestoredError, match="edited by somebody else"):
        rollback.restore(own.host, retry=True)
    again = own.instance("own-next")
    again.check()
    with pytest.raises(ServiceError, match="is changed already, by own-web"):
        again.start()
    again.stop()
    assert (own.tree / "nginx.conf").read_text() == theirs
    # the original is put back by hand: then all is as it was
    kept = next((own.state / "kept").iterdir())
    shutil.copy2(kept / "old/nginx.conf", own.tree / "nginx.conf")
    assert rollback.restore(own.host) == [f"{own.tree} (nginx runs with its own files again)"]
    own.must_be_as_before()
    record_property("seen", "kept; diff and original named; settled by hand, then restored")


@pytest.mark.fault(38)
@pytest.mark.long
def test_system_mode_server_that_fails_to_return_is_reported_once(own, record_property):
    with socket.socket() as other, socket.socket() as probe:
        probe.bind((own.host.address, 0))
        free = probe.getsockname()
        probe.close()
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
    deadline = time.monotonic() + 5
    while True:
        try:
            sock.bind(at)
            sock.listen()
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_system_mode_restores_files_after_a_reboot(own):
    instance = own.instance()
    instance.check()
    instance.start()
    pid = int(own.host.script(f"read -r pid rest <jobs/{instance.name}/pid; echo $pid", timeout_s=5).stdout)
    os.killpg(pid, signal.SIGKILL)
    end(own.run / "nginx.pid")
    entry = next((own.state / "undo").iterdir())
    lines = entry.read_text().splitlines()
    words = lines[0].split()
    words[3] = "00000000-0000-0000-0000-000000000000"
    entry.write_text("\n".join([" ".join(words), "sysctl /proc/sys/net/core/no-such-thing 1", *lines[1:], ""]))
    assert rollback.restore(own.host) == [f"{own.tree} (nginx runs with its own files again)"]
    own.must_be_as_before()
    instance.stop()


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
@pytest.mark.long
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
        wait_until(lambda: not own.left(), 20)
        own.must_be_as_before()
    record_property("seen", f"{len(after)} instants, {many} with files replaced: tree byte-identical each time")


@pytest.mark.fault(36)
@pytest.mark.long
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
            wait_until(lambda running=running, job=job: running.poll() is not None or (job / "state").exists(), 20)
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
@pytest.mark.long
def test_system_mode_restore_can_be_killed_at_every_write(own, tmp_path, record_property):
    instance, kills = own.instance(), 0
    instance.check()
    for number in range(1, 20):
        job, crash = tmp_path / f"job-{number}", tmp_path / f"crash-{number}"
        for folder, calls in ((job, 1000), (crash, number)):
            _crashing(folder, calls)
        env = {**os.environ, "LOADBOOK_STATE": str(own.state)}
        with process(["sh", rollback.SCRIPT_NAME, "system", instance.rendered.context.dir], cwd=job, env=env):
            wait_until((job / "state").exists, 20)
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


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_system_mode_restore_works_in_every_shell(own, tmp_path, shell):
    if shutil.which(shell[0]) is None:
        pytest.skip(f"needs {shell[0]}")
    instance, job = own.instance(), tmp_path / "job"
    instance.check()
    job.mkdir()
    (job / rollback.SCRIPT_NAME).write_text(rollback.rollback_script())
    env = {**os.environ, "LOADBOOK_STATE": str(own.state)}
    argv = [*shell, rollback.SCRIPT_NAME, "system", instance.rendered.context.dir]
    with process(argv, cwd=job, env=env) as running:
        wait_until((job / "state").exists, 20)
        assert (job / "state").read_text() == "done\n"
        # old processes may still answer, too
        wait_until(lambda: {own.page() for _ in range(5)} == {"loadbook"}, 20)
        running.terminate()
        running.wait(20)
    assert (job / "restored").read_text() == f"done {own.tree} (nginx runs with its own files again)\n"
    own.must_be_as_before()
    instance.stop()


def test_system_mode_refuses_a_server_that_another_trial_has_changed(own):
    with deployed(own), contextlib.closing(connect(own.hosts_file, "web", "second")) as second:
        other = own.instance("own-second")
        other.host = second
        other.check()
        with pytest.raises(ServiceError, match="is changed already, by own-web-"):
            other.start()
        other.stop()
        assert own.page() == "loadbook"
        assert rollback.restore(second) == []
    own.must_be_as_before()


def test_system_mode_of_unsupported_service_is_refused():
    with pytest.raises(UsageError, match="service redis has no system mode"):
        load_service("redis").as_system()
    assert load_service("nginx").as_system().needs == ("system",)


def test_system_mode_check_uses_the_new_files_also_for_absolute_includes(own):
    """A file of theirs that includes one of ours by its whole path is checked with the new one where that can be."""
    assert system.STAGE_TIMEOUT_S > 20
    (own.tree / "beside.conf").write_text(f"include {own.tree}/loadbook/id.conf;\n")
    instance = own.instance()
    instance.check()
    instance.stop()
