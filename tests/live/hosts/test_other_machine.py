"""Another machine answers under a host's name and with its key, as one that was made from a copy of its disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from test_jobs_controller_death import sshd_session_of

from loadbook.core.errors import LostError, OtherMachineError, UsageError
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab, lab_lock_owners
from loadbook.hosts.remote import connect
from recorded_run import with_studies
from waiting import PATIENCE_S

pytestmark = pytest.mark.fault(18)
MOUNT = 'mount --bind "$0" /etc/machine-id && exec '
SMALL = """
include = "aa.toml"
name = "small"
blocks = 1

[workload]
warmup_s = 0.2

[reset]
time_wait_sockets = 1000000
"""


def entering(machine_id: Path) -> tuple[str, ...]:
    """Return the words that start sshd where /etc/machine-id is this file, in namespaces of its own."""
    if os.geteuid() == 0:
        return ("unshare", "--mount", "sh", "-c", MOUNT + '"$@"', str(machine_id))
    back = f"unshare --user --map-user={os.getuid()} --map-group={os.getgid()} -- "
    return ("unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT + back + '"$@"', str(machine_id))


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A lab of its own, and what puts another machine in the place of its host `web`."""
    lab = Lab(tmp_path / "lab", net_prefix="127.251.7")
    lab.up()
    other = tmp_path / "machine-id"
    other.write_text("0123456789abcdef0123456789abcdef\n")
    if not Path("/etc/machine-id").is_file() or shutil.which("unshare") is None:
        pytest.skip("this machine has no machine id, or no unshare")
    if subprocess.run([*entering(other), "true"], capture_output=True, check=False).returncode:
        pytest.skip("namespaces are not allowed here")

    def displace() -> None:
        web = next(server for server in lab._recorded_servers() if server.alias == "web")
        os.kill(web.pid(), signal.SIGKILL)
        replace(web, enter_command=entering(other)).start()

    yield lab, displace
    for server in lab._recorded_servers():
        server.stop()
    lab.down()


def test_reconnect_to_another_machine_is_refused(own: tuple[Lab, Callable[[], None]], record_property):
    lab, displace = own
    host = connect(lab.hosts_file, "web", "20260101-000000")
    server = sshd_session_of(host)
    displace()
    os.kill(server, signal.SIGKILL)
    with suppress(LostError):  # whoever calls first may meet the loss of the connection
        host.run(["true"], timeout_s=PATIENCE_S)
    with pytest.raises(OtherMachineError, match="another machine answers under its name") as refused:
        host.run(["true"], timeout_s=PATIENCE_S)
    record_property("seen", refused.value.message)
    host.close()


def test_run_is_not_resumed_on_another_machine(own: tuple[Lab, Callable[[], None]], tmp_path, record_property):
    lab, displace = own
    layout = with_studies(tmp_path / "home")
    (layout.studies / "small.toml").write_text(SMALL)

    def interrupted(event):
        if event.kind == "trial-started":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(layout, RunRequest("small", lab.hosts_file), on_event=interrupted)
    displace()
    with pytest.raises(UsageError, match=r"host web: machine was [0-9a-f]{16}, is [0-9a-f]{16}") as refused:
        run_study(layout, RunRequest("small", lab.hosts_file))
    assert "--new" in refused.value.hint
    assert not lab_lock_owners(lab.folder / "web/work")
    record_property("seen", refused.value.message.splitlines()[-1].strip())
