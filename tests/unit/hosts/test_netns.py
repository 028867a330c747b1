"""The namespace lab: hosts of their own, apart from each other and from this machine; nothing of it stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadbook.cli.hosts import lab as lab_command
from loadbook.core.errors import UsageError
from loadbook.hosts.netns import NamespaceNetwork
from loadbook.hosts.sshd import LabNetwork, Sshd


def test_namespace_lab_without_root_suggests_the_loopback_lab(tmp_path, monkeypatch):
    for name in ("studies", "notebooks"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("LOADBOOK_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = CliRunner().invoke(lab_command, ["up", "--kind", "netns"])
    assert isinstance(done.exception, UsageError)
    assert "needs root" in done.exception.message
    assert "--kind loopback" in str(done.exception.hint)
    assert not (tmp_path / ".cache" / "lab" / "lab.json").exists()


NETWORK = NamespaceNetwork(Path("/lab"), balancers=frozenset({"lb"}))


def test_only_a_balancer_of_the_namespace_lab_has_a_second_address():
    hosts = [NETWORK.assign_server(alias, "198.18.7.3", None, None) for alias in ("web", "lb")]
    assert [NETWORK.service_address(host) for host in hosts] == ["198.18.7.3", "198.18.7.103"]
    assert [(host.port, host.service_port, host.folder) for host in hosts] == [
        (22, 80, Path("/lab/web")), (22, 80, Path("/lab/lb")),
    ]  # fmt: skip


def test_commands_of_a_namespace_host_run_in_its_own_namespace():
    command = NETWORK.assign_server("web", "198.18.7.3", (1,), None).enter_command
    assert command[:2] == ("nsenter", f"--net=/run/netns/{NETWORK.prefix}-host-web")
    assert command[-3:] == ("web", "/lab/web", "/lab/etc-hosts")


def test_namespace_labs_have_names_of_their_own():
    assert NETWORK.prefix != NamespaceNetwork(Path("/other")).prefix and NETWORK.prefix.startswith("lb")
    assert (
        NETWORK.permissions == ("sysctl", "tc", "cgroup", "nft", "system") and LabNetwork(Path("/x")).permissions == ()
    )


@pytest.mark.parametrize("seconds", [0, -1, 601])
def test_link_is_cut_for_ten_minutes_at_most(seconds):
    with pytest.raises(UsageError, match=f"up to 600 s, not {seconds} s"):
        NETWORK.cut_link(NETWORK.assign_server("web", "198.18.7.3", None, None), seconds)


def test_loopback_lab_has_no_links_to_cut():
    network, host = LabNetwork(Path("/lab"), "127.0.1"), Sshd("web", "127.0.1.2", 22023, 18081, None, Path("/lab/web"))
    assert (network.subnet([host]), network.service_address(host)) == ("127.0.1", "127.0.1.2")
    assert not network.is_link_cut(host) and network.with_enter_command(host) == host
    for change in (lambda: network.cut_link(host, 1), lambda: network.restore_link(host)):
        with pytest.raises(UsageError, match="no links that could be cut"):
            change()
