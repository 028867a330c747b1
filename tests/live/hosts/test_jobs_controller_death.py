"""No load program survives its controller, and a dead peer blocks nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from loadbook.core.errors import HostError
from loadbook.hosts.host import Job
from waiting import PATIENCE_S, wait_until

CONTROLLER = """
import sys, time
from pathlib import Path
from loadbook.hosts.remote import connect
from loadbook.hosts.host import Job
host = connect(Path(sys.argv[1]), "driver", "killed")
deaf = ("sh", "-c", "trap '' TERM; while :; do sleep 1; done")
host.start(Job("plain", (("sleep", "300"),), 600))
host.start(Job("deaf", (deaf,), 600))
host.start(Job("tree", (("sh", "-c", "sleep 301 & sleep 302 & wait"),), 600))
host.start(Job("stays", (("sleep", "303"),), 600, ends_with_session=False))
print("started", flush=True)
host.run(["sleep", "299"], timeout_s=400)
"""


def processes_below(folder: Path) -> list[str]:
    """Command lines of processes whose working folder is in `folder`, other than sshd."""
    found = []
    for proc in Path("/proc").iterdir():
        try:
            if proc.name.isdigit() and (proc / "cwd").readlink().is_relative_to(folder):
                found.append((proc / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.mark.fault(1)
def test_killed_controller_leaves_no_process_on_the_host(lab, connect_lab):
    work = lab.folder / "driver" / "work"
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(lab.hosts_file)], stdout=subprocess.PIPE, text=True
    )
    assert controller.stdout.readline() == "started\n"
    wait_until(lambda: sum("sleep" in line for line in processes_below(work)) >= 6)
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    try:
        wait_until(
            lambda: (
                not [p for p in processes_below(work) if "stays" not in p and "sleep 303" not in p and "600" not in p]
            ),
            40,
        )
        left = processes_below(work)
        assert any("sleep 303" in line for line in left)
        assert not any(
            "deaf" in line or "watch" in line or "sleep 30" in line.replace("sleep 303", "") for line in left
        )
    finally:
        host = connect_lab()
        host.stop("stays", grace_s=1)
    assert host.state("plain").rc == 143
    assert host.state("deaf").rc in (137, 143)
    wait_until(lambda: not any("sleep 303" in line for line in processes_below(work)))


@pytest.mark.fault(11)
def test_job_survives_a_lost_connection(connect_lab):
    host = connect_lab()
    host.start(Job("reattached", (("sh", "-c", "sleep 1.5; echo done; exit 7"),), 30))
    os.kill(sshd_session_of(host), signal.SIGKILL)
    assert host.wait("reattached", timeout_s=20, expect_s=1.5) == 7
    assert host.get("jobs/reattached/stdout.1", max_bytes=100) == b"done\n"
    assert host.reconnects == 1


def test_lost_connection_is_reopened_in_the_background(connect_lab):
    host = connect_lab()
    host.start(Job("alone", (("sh", "-c", "sleep 5; exit 8"),), 30))
    os.kill(sshd_session_of(host), signal.SIGKILL)
    time.sleep(5)
    assert host.wait("alone", timeout_s=PATIENCE_S) == 8
    assert host.reconnects == 1


def sshd_session_of(host) -> int:
    """Process id of the sshd that serves this host's connection: the parent of its shell."""
    shell = int(host.script("echo $PPID", timeout_s=PATIENCE_S).stdout)
    return int(Path(f"/proc/{shell}/stat").read_text().rpartition(")")[2].split()[1])


def test_close_interrupts_calls_of_other_threads(connect_lab):
    host = connect_lab()
    ended: list[Exception] = []

    def wait_long() -> None:
        try:
            host.run(["sleep", "70"], timeout_s=100)
        except HostError as error:
            ended.append(error)

    thread = threading.Thread(target=wait_long)
    thread.start()
    time.sleep(0.3)
    host.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert len(ended) == 1
