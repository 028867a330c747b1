"""One run per machine, whoever and from wherever; the death of its owner frees it, when its jobs have ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from job_sh import SHELLS, watch
from loadbook.hosts import session
from loadbook.hosts.host import Job
from loadbook.hosts.jobs import (
    InUseError,
    LockRequest,
    parse_owners,
)
from loadbook.hosts.lab import lab_lock_owners
from loadbook.hosts.remote import connect
from waiting import PATIENCE_S, wait_until


def ours(lab, **options):
    return connect(
        lab.hosts_file, "web", "20260202-000000", lock_request=LockRequest("ours", "20260202-000000", **options)
    )


@pytest.mark.fault(41)
def test_lock_of_owner_without_network_is_held_until_lease_ends(lab, monkeypatch, record_property):
    """The controller is silent and its connection stays open, as sshd sees it when a cable is pulled."""
    monkeypatch.setattr(session, "SESSION_LEASE_S", 4)
    monkeypatch.setattr(session, "HEARTBEAT_S", 1000.0)
    silent = connect(lab.hosts_file, "web", "20260101-000000", lock_request=LockRequest("theirs", "20260101-000000"))
    silent.start(Job("silent", (("sleep", "300"),), 600))
    begun = time.monotonic()
    assert [owner.study for owner in lab_lock_owners(lab.folder / "web/work")] == ["theirs"]
    wait_until(lambda: not lab_lock_owners(lab.folder / "web/work"))
    record_property("seen", f"free {time.monotonic() - begun:.1f} s after the last sign of life, with a lease of 4 s")
    assert (lab.folder / "web/work/jobs/silent/rc").exists()
    host = ours(lab)
    with pytest.raises(InUseError):  # it is back, and another has the host now
        silent.run(["true"], timeout_s=PATIENCE_S)
    host.close()
    silent.close()
    # it may have been about to come back when it was closed: that claim ends with its connection, or its lease
    wait_until(lambda: not lab_lock_owners(lab.folder / "web/work"))


@pytest.mark.fault(41)
def test_lock_lease_is_renewed_by_heartbeats(lab, monkeypatch):
    monkeypatch.setattr(session, "SESSION_LEASE_S", 4)
    monkeypatch.setattr(session, "HEARTBEAT_S", 0.5)
    with_beat = connect(lab.hosts_file, "web", "20260101-000000", lock_request=LockRequest("theirs", "20260101-000000"))
    time.sleep(5.5)
    assert [owner.study for owner in lab_lock_owners(lab.folder / "web/work")] == ["theirs"]
    assert with_beat.reconnects == 0
    with_beat.close()


@pytest.fixture(params=SHELLS)
def shell(request) -> list[str]:
    return SHELLS[request.param]


@pytest.fixture
def no_flock(tmp_path) -> str:
    """A PATH that has everything but flock."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("setsid", "mkdir", "mv", "rm", "date", "sleep", "sh", "dash", "bash", "busybox", "cat"):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return str(folder)


@pytest.mark.fault(40, 41)
@pytest.mark.parametrize("how", ["flock", "no flock", "no flock, then flock"])
def test_lock_covers_the_machine_across_two_work_folders(shell, tmp_path, no_flock, how):
    lock, first_path = tmp_path / "machine.lock", None if how == "flock" else no_flock
    first = watch(shell, tmp_path / "one", lock, "aaaa", path=first_path)
    assert first.stdout.readline().startswith("watching ")
    assert lock.stat().st_mode & 0o777 == 0o644
    second_path = no_flock if how == "no flock" else None
    second = watch(shell, tmp_path / "two", lock, "bbbb", path=second_path)
    word, _, rest = second.stdout.readline().partition(" ")
    assert (word, second.wait(PATIENCE_S)) == ("busy", 1)
    owner = parse_owners(rest.encode())[0]
    assert (owner.id, owner.user, owner.ending) == ("aaaa", "aaaa@there", False)
    assert 89 <= owner.age_s <= 95
    first.kill()
    first.wait()
    third = watch(shell, tmp_path / "two", lock, "cccc", path=second_path)
    assert third.stdout.readline().startswith("watching ")
    assert [path.name.split(".")[2] for path in tmp_path.glob("machine.lock.*")] == ["cccc"]
    third.communicate("bye\n", timeout=PATIENCE_S)
    assert not list(tmp_path.glob("machine.lock?*"))
    for process in (first, second):
        process.communicate()


@pytest.mark.fault(40)
def test_lock_requested_concurrently_has_one_owner(shell, tmp_path):
    lock, slow = tmp_path / "machine.lock", tmp_path / "slow"
    slow.mkdir()
    (slow / "mv").write_text('#!/bin/sh\n/bin/mv "$@"\nexec /bin/sleep 0.4\n')  # so that their claims overlap
    (slow / "mv").chmod(0o755)
    path = f"{slow}:{os.environ['PATH']}"
    claimants = [watch(shell, tmp_path / f"w{k}", lock, f"id{k}", path=path) for k in range(4)]
    answers = [process.stdout.readline().split(" ")[0] for process in claimants]
    assert sorted(answers) == ["busy"] * 3 + ["watching"]
    for process in claimants:
        process.communicate("bye\n" if process.poll() is None else None, timeout=PATIENCE_S)


@pytest.mark.fault(40)
def test_lock_that_cannot_be_created_is_reported(shell, tmp_path):
    refused = watch(shell, tmp_path / "one", tmp_path / "no-such-folder" / "lock", "aaaa")
    assert refused.stdout.readline().startswith("unlocked ")
    assert refused.wait(PATIENCE_S) == 1
    refused.communicate()


@pytest.fixture
def protected():
    """The kernel's guard of sticky folders, at its strictest."""
    setting = Path("/proc/sys/fs/protected_regular")
    before = setting.read_text()
    try:
        setting.write_text("2")
    except OSError:
        pytest.skip("fs.protected_regular cannot be set here")
    yield
    setting.write_text(before)


@pytest.mark.root
@pytest.mark.fault(40)
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not installed")
def test_lock_in_a_sticky_folder_such_as_tmp_works_for_several_users(tmp_path_factory, protected):
    """/tmp, where nobody may open to make what another owns (fs.protected_regular), nor remove it."""
    top = tmp_path_factory.mktemp("sticky")
    for folder in (top.parent.parent, top.parent, top):
        folder.chmod(folder.stat().st_mode | 0o011)
    top.chmod(0o1777)

    def as_user(number: int, name: str) -> subprocess.Popen[str]:
        home = top / name
        home.mkdir()
        os.chown(home, number, number)
        drop = ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "dash"]
        return watch(drop, home, top / "machine.lock", name)

    first = as_user(61001, "alice")
    assert first.stdout.readline().startswith("watching ")
    second = as_user(61002, "bob")
    assert second.stdout.readline().startswith("busy ")
    first.communicate("bye\n", timeout=PATIENCE_S)
    third = as_user(61003, "carol")
    assert third.stdout.readline().startswith("watching ")
    third.kill()  # what it leaves can only be removed by itself or root
    third.communicate()
    second.communicate()
    fourth = as_user(61004, "dave")
    assert fourth.stdout.readline().startswith("watching ")
    fourth.communicate("bye\n", timeout=PATIENCE_S)
