"""The host's own server with files of ours: checked, replaced, proven, put back, whatever goes wrong in between."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadbook.core.errors import UsageError
from loadbook.hosts import rollback
from loadbook.hosts.remote import connect
from loadbook.services import ServiceError, load_service, system
from system_nginx import NEEDS_NGINX, SHELLS, OwnServer, deployed, digest, end, own_server, process
from waiting import PATIENCE_S, wait_until

pytestmark = NEEDS_NGINX


@pytest.fixture
def own(lab, tmp_path, port) -> Iterator[OwnServer]:
    with own_server(lab, tmp_path, port) as server:
        yield server


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
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
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


def test_system_mode_file_without_config_id_is_proven_by_new_processes(own, monkeypatch):
    own_file = (own.tree / "nginx.conf").read_bytes().replace(b"their own", b"their new")
    with deployed(own, main=own_file) as instance:
        proof = instance.prove(own.host)
        assert proof.live is None
        assert "no process of before is left" in proof.evidence
        assert own.page() == "their new"
    own.must_be_as_before()


@pytest.mark.fault(37)
def test_system_mode_keeps_and_reports_a_file_edited_by_somebody_else(own, record_property):
    with pytest.raises(rollback.NotRestoredError) as left, deployed(own):
        with (own.tree / "nginx.conf").open("a") as file:
            file.write("# mine, do not touch\n")
        theirs = (own.tree / "nginx.conf").read_text()
    words = str(left.value)
    assert f"edited by somebody else meanwhile, and left alone: {own.tree}/nginx.conf" in words
    assert "loadbook restore" in words
    displayed = Path(next(word for word in words.split() if word.endswith("/nginx.conf/diff")))
    assert "+# mine, do not touch" in displayed.read_text()
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


def test_system_mode_restores_files_after_a_reboot(own):
    instance = own.instance()
    instance.check()
    instance.start()
    pid = int(own.host.script(f"read -r pid rest <jobs/{instance.name}/pid; echo $pid", timeout_s=PATIENCE_S).stdout)
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
        wait_until((job / "state").exists)
        assert (job / "state").read_text() == "done\n"
        # old processes may still answer, too
        wait_until(lambda: {own.page() for _ in range(5)} == {"loadbook"})
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
