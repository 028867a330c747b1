"""No load program survives its controller, and a dead peer blocks nobody."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from loadbook.core.errors import HostError, LostError
from waiting import PATIENCE_S, wait_until


def sshd_session_of(host) -> int:
    """Process id of the sshd that serves this host's connection: the parent of its shell."""
    shell = int(host.script("echo $PPID", timeout_s=PATIENCE_S).stdout)
    return int(Path(f"/proc/{shell}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.fault(13)
def test_stopped_sshd_is_detected_and_blocks_no_thread(connect_lab, record_property):
    before = threading.active_count()
    host = connect_lab("web")
    server = sshd_session_of(host)
    os.kill(server, signal.SIGSTOP)
    started = time.monotonic()
    try:
        with pytest.raises(LostError):
            host.run(["true"], timeout_s=PATIENCE_S)
        found_s = time.monotonic() - started
    finally:
        os.kill(server, signal.SIGCONT)
    assert host.run(["echo", "back"], timeout_s=PATIENCE_S).stdout == b"back\n"
    host.close()
    with pytest.raises(HostError, match="closed by us"):
        host.run(["true"], timeout_s=PATIENCE_S)
    wait_until(lambda: threading.active_count() <= before)
    record_property("seen", f"found after {found_s:.1f} s, connected again, no thread left")
