"""The namespace lab: hosts of their own, apart from each other and from this machine; nothing of it stays."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadbook.cli.hosts import lab as lab_command
from loadbook.core.errors import UsageError
from loadbook.hosts.doctor import check_hosts
from loadbook.hosts.host import Job
from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.lab import Lab
from loadbook.hosts.netns import NamespaceNetwork, namespace_names
from loadbook.hosts.remote import connect
from waiting import wait_until


@pytest.fixture
def connect_host(spaces):
    opened = []

    def open_one(alias: str):
        opened.append(connect(spaces.hosts_file, alias, "test"))
        return opened[-1]

    yield open_one
    for host in opened:
        host.close()


def said(host, text: str) -> str:
    return host.script(text, timeout_s=5, check=True).stdout.decode().strip()


@pytest.mark.root
@pytest.mark.lab
def test_namespace_hosts_have_own_names_addresses_and_settings(spaces, connect_host):
    web, driver, known = connect_host("web"), connect_host("driver"), read_hosts(spaces.hosts_file)
    assert said(web, "hostname; cat /etc/hostname; ls /sys/class/net").split() == ["web", "web", "eth0", "lo"]
    assert said(web, "getent hosts balancer").split() == [known.hosts["balancer"].address, "balancer"]
    assert (web.address, known.hosts["web"].service_port) == (known.hosts["web"].address, 80)
    said(web, "echo 77 >/proc/sys/net/core/somaxconn; echo changed >/etc/motd")
    assert said(driver, "cat /proc/sys/net/core/somaxconn; cat /etc/motd 2>/dev/null || :").split("\n")[0] != "77"
    assert Path("/proc/sys/net/core/somaxconn").read_text().strip() != "77"
    assert "changed" not in said(driver, "cat /etc/motd 2>/dev/null || :")
    assert "overlay /etc" in said(web, "cat /proc/mounts")
    assert "overlay /etc" not in Path("/proc/mounts").read_text()
    assert os.uname().nodename != "web"


@pytest.mark.root
@pytest.mark.lab
def test_namespace_interfaces_count_traffic_between_hosts(spaces, connect_host):
    web, driver = connect_host("web"), connect_host("driver")
    web.start(Job("page", (("python3", "-m", "http.server", "80", "--bind", web.address),), 20))
    wait_until(lambda: said(web, f"ss -Hltn 'src {web.address}:80'"))
    counter = "cat /sys/class/net/eth0/statistics/tx_bytes"
    before = int(said(web, counter))
    assert driver.http_get(web.address, 80, "/", timeout_s=5).status == 200
    assert int(said(web, counter)) > before


@pytest.mark.root
@pytest.mark.lab
def test_cut_network_link_returns_after_its_time_or_on_command(spaces):
    def cut() -> bool:
        return next(s.link_cut for s in spaces.status() if s.alias == "balancer")

    spaces.cut_link("balancer", 60)
    assert cut()
    spaces.restore_link("balancer")
    assert not cut()
    spaces.cut_link("balancer", 0.5)
    wait_until(lambda: not cut(), 5)
    connect(spaces.hosts_file, "balancer").close()
    with pytest.raises(UsageError, match="up to 600 s"):
        spaces.cut_link("balancer", 10_000)


@pytest.mark.root
@pytest.mark.lab
@pytest.mark.long
def test_namespaces_left_by_a_crash_are_reused_or_removed(tmp_path):
    lab = Lab.load(tmp_path / "lab", min_hosts={"app": 1}, kind="netns")
    prefix = NamespaceNetwork(lab.folder).prefix
    others = {name for name in namespace_names() if not name.startswith(prefix)}
    try:
        first = lab.up()
        assert lab.up() == first
        subprocess.run(["ip", "netns", "del", f"{prefix}-host-web"], check=True)
        second = lab.up()
        assert [s.address for s in second] == [s.address for s in first]
        assert [a.pid == b.pid for a, b in zip(first, second, strict=True)] == [True, False, True]
        (lab.folder / "lab.json").write_text('{"kind": "netns", "hosts": {}}')  # as of a lab that never came up whole
        Lab.load(lab.folder).down()
        assert not [name for name in namespace_names() if name.startswith(prefix)]
        assert not Path(f"/sys/class/net/{prefix}").exists()
        assert others <= set(namespace_names())
    finally:
        lab.down()


@pytest.mark.root
@pytest.mark.lab
def test_lab_of_the_other_kind_is_stopped_first(tmp_path):
    folder = tmp_path / "lab"
    try:
        Lab.load(folder, kind="netns").up()
        assert Lab.load(folder).kind == "netns"
        other = Lab.load(folder, kind="loopback")
        states = other.up()
        assert not [name for name in namespace_names() if name.startswith(NamespaceNetwork(folder).prefix)]
        assert all(state.address.startswith("127.") and state.pid for state in states)
        assert Lab.load(folder).kind == "loopback"
        assert not read_hosts(other.hosts_file).hosts["web"].allow
    finally:
        Lab.load(folder).down()


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


@pytest.mark.root
@pytest.mark.lab
def test_doctor_tries_the_changes_that_the_hosts_file_allows(spaces):
    checks = check_hosts(spaces.hosts_file, read_hosts(spaces.hosts_file), {})
    seen = {check.subject: check.status for check in checks if check.host == "web" and check.subject.startswith("may ")}
    can_delay = subprocess.run(["unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", "netem"], check=False)
    delay = "ok" if can_delay.returncode == 0 else "doubt"
    assert seen == {"may sysctl": "ok", "may cgroup": "ok", "may nft": "ok", "may tc": delay, "may system": "ok"}
    assert sum(check.subject == "machine" for check in checks) <= 1
