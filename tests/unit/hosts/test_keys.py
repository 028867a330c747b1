"""Host keys are proven before any command runs; only `hosts trust` accepts one."""

from __future__ import annotations

import socket

import pytest
from paramiko import SSHConfig

from loadbook.core.errors import UsageError
from loadbook.hosts.inventory import HostEntry
from loadbook.hosts.keys import resolve_endpoint


def test_ssh_config_fills_in_what_the_hosts_file_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "getfqdn", lambda: "here")  # paramiko looks it up for each IdentityFile
    (tmp_path / "key").write_text("")
    config = SSHConfig.from_text(
        f"Host box\n HostName 10.1.2.3\n Port 2200\n User me\n IdentityFile {tmp_path}/key\n HostKeyAlias boxkey\n"
        f" UserKnownHostsFile {tmp_path}/theirs\n StrictHostKeyChecking no\nHost circle\n ProxyJump circle\n"
    )
    end = resolve_endpoint("web", HostEntry(roles=("web",), ssh="box", port=2300), tmp_path / "ours", config)
    assert (end.host_name, end.port, end.user, end.host_key_alias) == ("10.1.2.3", 2300, "me", "boxkey")
    assert end.known_hosts == (tmp_path / "ours", tmp_path / "theirs")
    assert end.identity_files == (str(tmp_path / "key"),)
    with pytest.raises(UsageError, match="more than"):
        resolve_endpoint("circle", HostEntry(roles=("web",)), tmp_path / "ours", config)
