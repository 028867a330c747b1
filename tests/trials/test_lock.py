from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from loadbook.core.errors import UsageError
from loadbook.trials.lock import only_runner

HOLD = """
import sys, time
from pathlib import Path
from loadbook.trials.lock import only_runner
with only_runner(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_runner_is_refused_and_death_frees_the_lock(tmp_path):
    owner = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout.readline() == "held\n"
    with pytest.raises(UsageError, match=rf"process {owner.pid}, started .* ago") as refused, only_runner(tmp_path):
        raise AssertionError
    assert refused.value.exit_code == 2
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    with only_runner(tmp_path):
        pass


def test_the_lock_is_free_again_after_use(tmp_path):
    for _ in range(2):
        with only_runner(tmp_path / "study"):
            pass
