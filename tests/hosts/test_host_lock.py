"""One run per machine, whoever and from wherever; the death of its owner frees it, when its jobs have ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loadbook.hosts import session
from loadbook.hosts.doctor import check_hosts
from loadbook.hosts.host import Job
from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.jobs import (
    InUseError,
    LockRequest,
    launcher_script,
    parse_owners,
    pid_namespace_id,
    process_start_ticks,
)
from loadbook.hosts.lab import lab_lock_owners
from loadbook.hosts.remote import connect
from waiting import wait_until

HOLDER = """
import sys, time
from pathlib import Path
from loadbook.hosts.remote import connect
from loadbook.hosts.host import Job
from loadbook.hosts.jobs import LockRequest
host = connect(Path(sys.argv[1]), "web", "20260101-000000", lock_request=LockRequest("theirs", "20260101-000000"))
host.start(Job("held", (("sh", "-c", "trap '' TERM; while :; do sleep 1; done"),), 600))
print("held", flush=True)
time.sleep(600)
"""
SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}


@pytest.fixture
def holder(lab):
    """A controller of its own that holds the host `web`, with a job there that is deaf to TERM."""
    words = [sys.executable, "-c", HOLDER, str(lab.hosts_file)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()
    wait_until(lambda: not lab_lock_owners(lab.folder / "web/work"))
    shutil.rmtree(lab.folder / "web/work/jobs/held")


def ours(lab, **options):
    return connect(
        lab.hosts_file, "web", "20260202-000000", lock_request=LockRequest("ours", "20260202-000000", **options)
    )


@pytest.mark.lab
@pytest.mark.fault(40)
def test_lock_refuses_second_controller_and_names_the_owner(lab, holder, record_property):
    begun = time.monotonic()
    with pytest.raises(InUseError) as refused:
        ours(lab)
    took_s = time.monotonic() - begun
    record_property("seen", f"refused by the host in {took_s:.2f} s, owner named")
    assert took_s < 20, "the refusal waited for the lock"  # logins take seconds beside other tests
    owner = refused.value.owner
    assert (owner.pid, owner.study, owner.run) == (holder.pid, "theirs", "20260101-000000")
    assert f"process {holder.pid}), run 20260101-000000 of theirs, for " in refused.value.message
    assert f"--break-lock {owner.id}" in refused.value.hint
    # whoever claims nothing gets in
    locks = {c.host: c for c in check_hosts(lab.hosts_file, read_hosts(lab.hosts_file), {}) if c.subject == "lock"}
    assert (locks["driver"].status, locks["web"].status) == ("ok", "doubt")
    assert f"in use by {owner.user} (process {holder.pid})" in locks["web"].observation and "--wait" in locks["web"].fix


@pytest.mark.parametrize("shell", SHELLS)
def test_lock_path_that_is_a_fifo_is_refused_at_once(shell, tmp_path):
    """Opening a FIFO waits for its other end: nothing may open one that somebody left there."""
    if shutil.which(SHELLS[shell][0]) is None:
        pytest.skip(f"{shell} is not there: apt-get install {shell}")
    name, text = launcher_script()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(text)
    os.mkfifo(tmp_path / "lock")
    args = ["a", "me@here", "1", "x:1", "study", "run", "0"]
    watch = [*SHELLS[shell], str(tmp_path / name), "watch", "session", "120", str(tmp_path / "lock"), *args]
    done = subprocess.run(watch, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
    assert done.returncode != 0 and f"unlocked {tmp_path}/lock is no regular file" in done.stdout.decode(), done
    os.mkfifo(tmp_path / "other.b.1")
    listing = [*SHELLS[shell], str(tmp_path / name), "owners", str(tmp_path / "other")]
    assert subprocess.run(listing, cwd=tmp_path, capture_output=True, timeout=10, check=True).stdout == b""


@pytest.mark.lab
@pytest.mark.fault(41)
def test_lock_is_released_after_owner_is_killed_and_its_jobs_ended(lab, holder, record_property):
    holder.kill()
    begun = time.monotonic()
    host = ours(lab)
    record_property("seen", f"taken over {time.monotonic() - begun:.1f} s after kill -9 of the owner")
    assert (lab.folder / "web/work/jobs/held/rc").exists()
    assert [owner.study for owner in lab_lock_owners(lab.folder / "web/work")] == ["ours"]
    host.close()
    assert lab_lock_owners(lab.folder / "web/work") == []
    assert not list((lab.folder / "web/work").glob("host.lock?*"))


@pytest.mark.lab
@pytest.mark.fault(41)
@pytest.mark.alone
def test_lock_of_owner_without_network_is_held_until_lease_ends(lab, monkeypatch, record_property):
    """The controller is silent and its connection stays open, as sshd sees it when a cable is pulled."""
    monkeypatch.setattr(session, "SESSION_LEASE_S", 4)
    monkeypatch.setattr(session, "HEARTBEAT_S", 1000.0)
    silent = connect(lab.hosts_file, "web", "20260101-000000", lock_request=LockRequest("theirs", "20260101-000000"))
    silent.start(Job("silent", (("sleep", "300"),), 600))
    begun = time.monotonic()
    assert [owner.study for owner in lab_lock_owners(lab.folder / "web/work")] == ["theirs"]
    wait_until(lambda: not lab_lock_owners(lab.folder / "web/work"), 10)
    record_property("seen", f"free {time.monotonic() - begun:.1f} s after the last sign of life, with a lease of 4 s")
    assert (lab.folder / "web/work/jobs/silent/rc").exists()
    host = ours(lab)
    with pytest.raises(InUseError):  # it is back, and another has the host now
        silent.run(["true"], timeout_s=5)
    host.close()
    silent.close()
    # it may have been about to come back when it was closed: that claim ends with its connection, or its lease
    wait_until(lambda: not lab_lock_owners(lab.folder / "web/work"), 10)


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.long
@pytest.mark.fault(41)
def test_lock_of_owner_killed_behind_cut_link_is_held_until_lease_ends(spaces, record_property):
    """Nothing tells the host: no end of connection can reach it."""
    words = [sys.executable, "-c", HOLDER, str(spaces.hosts_file)]
    owner = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    work = spaces.folder / "web/work"
    try:
        assert owner.stdout.readline() == "held\n"
        spaces.cut_link("web", 190)
        begun = time.monotonic()
        owner.kill()
        owner.communicate()
        time.sleep(session.SESSION_LEASE_S / 2)
        assert [found.study for found in lab_lock_owners(work)] == ["theirs"]
        wait_until(lambda: not lab_lock_owners(work), session.SESSION_LEASE_S / 2 + 15)
        record_property("seen", f"cut off and killed: free after {time.monotonic() - begun:.0f} s")
        assert (work / "jobs/held/rc").exists()
    finally:
        owner.kill()
        spaces.restore_link("web")
    connect(spaces.hosts_file, "web", "20260202-000000", lock_request=LockRequest("ours", "20260202-000000")).close()


@pytest.mark.lab
@pytest.mark.fault(41)
@pytest.mark.alone
def test_lock_lease_is_renewed_by_heartbeats(lab, monkeypatch):
    monkeypatch.setattr(session, "SESSION_LEASE_S", 4)
    monkeypatch.setattr(session, "HEARTBEAT_S", 0.5)
    with_beat = connect(lab.hosts_file, "web", "20260101-000000", lock_request=LockRequest("theirs", "20260101-000000"))
    time.sleep(5.5)
    assert [owner.study for owner in lab_lock_owners(lab.folder / "web/work")] == ["theirs"]
    assert with_beat.reconnects == 0
    with_beat.close()


@pytest.mark.lab
@pytest.mark.fault(40)
def test_lock_survives_a_reconnect_and_is_shared_by_all_aliases_of_a_run(lab, tmp_path):
    text = lab.hosts_file.read_text()
    (tmp_path / "hosts.toml").write_text(text.replace("/driver/work/host.lock", "/web/work/host.lock"))
    shutil.copy(lab.folder / "known_hosts", tmp_path / "known_hosts")
    claim = LockRequest("two", "20260101-000000")
    one, two = (connect(tmp_path / "hosts.toml", alias, claim.run, lock_request=claim) for alias in ("web", "driver"))
    assert len(lab_lock_owners(lab.folder / "web/work")) == 2
    shell = int(one.script("echo $PPID", timeout_s=5).stdout)
    server = int(Path(f"/proc/{shell}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: one.reconnects == 1)
    one.run(["true"], timeout_s=5)
    one.close()
    with pytest.raises(InUseError):  # the other alias of the machine is still at work
        ours(lab)
    two.close()
    ours(lab).close()


@pytest.mark.lab
@pytest.mark.fault(40)
def test_lock_can_be_broken_with_the_id_of_its_owner(lab, holder, record_property):
    with pytest.raises(InUseError) as refused:
        ours(lab, evict_id="0badc0de")
    host = ours(lab, evict_id=refused.value.owner.id)
    record_property("seen", "broken with the owner's id: its jobs ended first")
    assert (lab.folder / "web/work/jobs/held/rc").exists()
    assert [owner.study for owner in lab_lock_owners(lab.folder / "web/work")] == ["ours"]
    host.close()


@pytest.mark.lab
@pytest.mark.fault(41)
def test_lock_owner_that_died_on_this_machine_is_detected(lab, monkeypatch):
    """Its connection stays open (another process has the socket), so that no end of file tells the host."""
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    place = f"{pid_namespace_id()}:12345"
    theirs = LockRequest("theirs", "20260101-000000")
    known = [theirs.lock_file, theirs.id, "me@here", dead.stdout.strip(), place, "theirs", "20260101-000000", "0"]
    with monkeypatch.context() as patched:
        patched.setattr(LockRequest, "script_args", lambda self: [self.lock_file, *known[1:]])
        stale = connect(lab.hosts_file, "web", theirs.run, lock_request=theirs)
    host = ours(lab)
    assert [owner.study for owner in lab_lock_owners(lab.folder / "web/work")] == ["ours"]
    host.close()
    stale.close()


@pytest.fixture(params=SHELLS)
def shell(request) -> list[str]:
    return SHELLS[request.param]


def watch(shell: list[str], folder: Path, lock: Path, owner: str, *, path: str | None = None) -> subprocess.Popen[str]:
    """Start a watcher that claims the lock, in a work folder of its own."""
    folder.mkdir(exist_ok=True)
    (folder / "job.sh").write_bytes(launcher_script()[1])
    words = [*shell, "job.sh", "watch", f"s-{owner}", "60", str(lock)]
    return subprocess.Popen(
        [*words, owner, f"{owner}@there", "1", "place:1", "study", "run", "90"],
        cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | ({"PATH": path} if path else {}),
    )  # fmt: skip


@pytest.fixture
def no_flock(tmp_path) -> str:
    """A PATH that has everything but flock."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("setsid", "mkdir", "mv", "rm", "date", "sleep", "sh", "dash", "bash", "busybox", "cat"):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return str(folder)


@pytest.mark.alone
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
    assert (word, second.wait(5)) == ("busy", 1)
    owner = parse_owners(rest.encode())[0]
    assert (owner.id, owner.user, owner.ending) == ("aaaa", "aaaa@there", False)
    assert 89 <= owner.age_s <= 95
    first.kill()
    first.wait()
    third = watch(shell, tmp_path / "two", lock, "cccc", path=second_path)
    assert third.stdout.readline().startswith("watching ")
    assert [path.name.split(".")[2] for path in tmp_path.glob("machine.lock.*")] == ["cccc"]
    third.communicate("bye\n", timeout=5)
    assert not list(tmp_path.glob("machine.lock?*"))
    for process in (first, second):
        process.communicate()


@pytest.mark.alone
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
        process.communicate("bye\n" if process.poll() is None else None, timeout=10)


@pytest.mark.alone
@pytest.mark.fault(40)
def test_lock_that_cannot_be_created_is_reported(shell, tmp_path):
    refused = watch(shell, tmp_path / "one", tmp_path / "no-such-folder" / "lock", "aaaa")
    assert refused.stdout.readline().startswith("unlocked ")
    assert refused.wait(5) == 1
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
@pytest.mark.alone
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
    first.communicate("bye\n", timeout=5)
    third = as_user(61003, "carol")
    assert third.stdout.readline().startswith("watching ")
    third.kill()  # what it leaves can only be removed by itself or root
    third.communicate()
    second.communicate()
    fourth = as_user(61004, "dave")
    assert fourth.stdout.readline().startswith("watching ")
    fourth.communicate("bye\n", timeout=5)


def test_process_identity_includes_its_start_time():
    assert process_start_ticks(os.getpid()) and process_start_ticks(os.getpid()) == process_start_ticks(os.getpid())
    assert process_start_ticks(2**22 + 1) == ""
