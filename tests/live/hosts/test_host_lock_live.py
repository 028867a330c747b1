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

from loadbook.hosts.doctor import check_hosts
from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.jobs import (
    InUseError,
    LockRequest,
    pid_namespace_id,
)
from loadbook.hosts.lab import lab_lock_owners
from loadbook.hosts.remote import connect
from waiting import PATIENCE_S, wait_until

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


@pytest.mark.fault(40)
def test_lock_refuses_second_controller_and_names_the_owner(lab, holder, record_property):
    with pytest.raises(InUseError) as refused:
        ours(lab)
    record_property("seen", "refused by the host, owner named")
    owner = refused.value.owner
    assert (owner.pid, owner.study, owner.run) == (holder.pid, "theirs", "20260101-000000")
    assert f"process {holder.pid}), run 20260101-000000 of theirs, for " in refused.value.message
    assert f"--break-lock {owner.id}" in refused.value.hint
    # whoever claims nothing gets in
    locks = {c.host: c for c in check_hosts(lab.hosts_file, read_hosts(lab.hosts_file), {}) if c.subject == "lock"}
    assert (locks["driver"].status, locks["web"].status) == ("ok", "doubt")
    assert f"in use by {owner.user} (process {holder.pid})" in locks["web"].observation and "--wait" in locks["web"].fix


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


@pytest.mark.fault(40)
def test_lock_survives_a_reconnect_and_is_shared_by_all_aliases_of_a_run(lab, tmp_path):
    text = lab.hosts_file.read_text()
    (tmp_path / "hosts.toml").write_text(text.replace("/driver/work/host.lock", "/web/work/host.lock"))
    shutil.copy(lab.folder / "known_hosts", tmp_path / "known_hosts")
    claim = LockRequest("two", "20260101-000000")
    one, two = (connect(tmp_path / "hosts.toml", alias, claim.run, lock_request=claim) for alias in ("web", "driver"))
    assert len(lab_lock_owners(lab.folder / "web/work")) == 2
    shell = int(one.script("echo $PPID", timeout_s=PATIENCE_S).stdout)
    server = int(Path(f"/proc/{shell}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: one.reconnects == 1)
    one.run(["true"], timeout_s=PATIENCE_S)
    one.close()
    with pytest.raises(InUseError):  # the other alias of the machine is still at work
        ours(lab)
    two.close()
    ours(lab).close()


@pytest.mark.fault(40)
def test_lock_can_be_broken_with_the_id_of_its_owner(lab, holder, record_property):
    with pytest.raises(InUseError) as refused:
        ours(lab, evict_id="0badc0de")
    host = ours(lab, evict_id=refused.value.owner.id)
    record_property("seen", "broken with the owner's id: its jobs ended first")
    assert (lab.folder / "web/work/jobs/held/rc").exists()
    assert [owner.study for owner in lab_lock_owners(lab.folder / "web/work")] == ["ours"]
    host.close()


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
