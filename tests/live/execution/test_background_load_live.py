"""Somebody else uses the hosts: said before the run, flagged on the trials that it met."""

from __future__ import annotations

import socket
import subprocess

import pytest

from loadbook.execution.background_load import BACKGROUND_LOAD_SCRIPT, hex_address, parse_background_load


@pytest.mark.fault(42)
@pytest.mark.parametrize("shell", (["dash"], ["bash", "--posix"], ["busybox", "sh"]))
def test_background_load_script_works_on_a_real_host(shell, tmp_path):
    """A connection, a package manager by its name, and a timer of a systemd that this machine may not have."""
    fake = tmp_path / "systemctl"
    fake.write_text('#!/bin/sh\ncase $* in *apt-daily.timer) echo "Mon 2099-01-05 10:00:00 UTC" ;; esac\n')
    fake.chmod(0o755)
    (tmp_path / "apt-get").symlink_to("/bin/sleep")
    apt = subprocess.Popen([str(tmp_path / "apt-get"), "20"])
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        port = f"{server.getsockname()[1]:04X}"
        words = [*shell, "-c", BACKGROUND_LOAD_SCRIPT, "sh", hex_address("127.0.0.1"), port]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=20, check=False, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}
        )
    apt.kill()
    apt.wait()
    printed = list(parse_background_load(done.stdout, 1000, 1e6))
    assert f"1 connections to port {int(port, 16)} are open, which are not ours" in printed
    assert any(line.startswith("a package manager is at work: apt-get") for line in printed)
    assert any(line.startswith("apt-daily.timer starts a package manager in") for line in printed)
