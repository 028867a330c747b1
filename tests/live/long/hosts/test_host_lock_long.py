"""One run per machine, whoever and from wherever; the death of its owner frees it, when its jobs have ended."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from loadbook.hosts import session
from loadbook.hosts.jobs import (
    LockRequest,
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


@pytest.mark.root
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
        wait_until(lambda: not lab_lock_owners(work), session.SESSION_LEASE_S / 2 + PATIENCE_S)
        record_property("seen", f"cut off and killed: free after {time.monotonic() - begun:.0f} s")
        assert (work / "jobs/held/rc").exists()
    finally:
        owner.kill()
        spaces.restore_link("web")
    connect(spaces.hosts_file, "web", "20260202-000000", lock_request=LockRequest("ours", "20260202-000000")).close()
