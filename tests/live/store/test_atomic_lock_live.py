"""One process per study folder, and what becomes of a second one."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

from loadbook.core.errors import UsageError
from loadbook.store.atomic import hold_study_lock

HOLD = """
import sys, time
from pathlib import Path
from loadbook.store.atomic import hold_study_lock
with hold_study_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.fault(8)
def test_study_lock_refuses_a_second_process_and_is_released_when_its_holder_dies(tmp_path, record_property):
    owner = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout.readline() == "held\n"
    printed = rf"process {owner.pid} of \S+ on {socket.gethostname()}, started .* ago"
    with pytest.raises(UsageError, match=printed) as refused, hold_study_lock(tmp_path):
        raise AssertionError
    assert refused.value.exit_code == 2
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    with hold_study_lock(tmp_path) as taken_over:
        assert f"process {owner.pid} of" in taken_over and "which died, is taken over" in taken_over
    record_property("seen", "owner named; taken over after kill -9, and said")
