"""The namespace lab: hosts of their own, apart from each other and from this machine; nothing of it stays."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from loadbook.core.errors import UsageError
from loadbook.hosts.doctor import check_hosts
from loadbook.hosts.host import Job
from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.lab import Lab
from loadbook.hosts.netns import NamespaceNetwork, namespace_names
from loadbook.hosts.remote import connect
from waiting import PATIENCE_S, wait_until


@pytest.fixture
def connect_host(spaces):
    opened = []

    def open_one(alias: str):
        opened.append(connect(spaces.hosts_file, alias, "test"))
        return opened[-1]

    yield open_one
    for host in opened:
        host.close()


def printed(host, text: str) -> str:
    return host.script(text, timeout_s=PATIENCE_S, check=True).stdout.decode().strip()


@pytest.mark.root
def test_namespace_hosts_have_own_names_addresses_and_settings(spaces, connect_host):
    web, driver, known = connect_host("web"), connect_host("driver"), read_hosts(spaces.hosts_file)
    assert printed(web, "hostname; cat /etc/hostname; ls /sys/class/net").split() == ["web", "web", "eth0", "lo"]
    assert printed(web, "getent hosts balancer").split() == [known.hosts["balancer"].address, "balancer"]
    assert (web.address, known.hosts["web"].service_port) == (known.hosts["web"].address, 80)
    printed(web, "echo 77 >/proc/sys/net/core/somaxconn; echo changed >/etc/motd")
    assert printed(driver, "cat /proc/sys/net/core/somaxconn; cat /etc/motd 2>/dev/null || :").split("\n")[0] != "77"
    assert Path("/proc/sys/net/core/somaxconn").read_text().strip() != "77"
    assert "changed" not in printed(driver, "cat /etc/motd 2>/dev/null || :")
    assert "overlay /etc" in printed(web, "cat /proc/mounts")
    assert "overlay /etc" not in Path("/proc/mounts").read_text()
    assert os.uname().nodename != "web"


@pytest.mark.root
def test_namespace_interfaces_count_traffic_between_hosts(spaces, connect_host):
    web, driver = connect_host("web"), connect_host("driver")
    web.start(Job("page", (("python3", "-m", "http.server", "80", "--bind", web.address),), 20))
    wait_until(lambda: printed(web, f"ss -Hltn 'src {web.address}:80'"))
    counter = "cat /sys/class/net/eth0/statistics/tx_bytes"
    before = int(printed(web, counter))
    assert driver.http_get(web.address, 80, "/", timeout_s=PATIENCE_S).status == 200
    assert int(printed(web, counter)) > before


@pytest.mark.root
def test_cut_network_link_returns_after_its_time_or_on_command(spaces):
    def cut() -> bool:
        return next(s.link_cut for s in spaces.status() if s.alias == "balancer")

    spaces.cut_link("balancer", 60)
    assert cut()
    spaces.restore_link("balancer")
    assert not cut()
    spaces.cut_link("balancer", 0.5)
    wait_until(lambda: not cut())
    connect(spaces.hosts_file, "balancer").close()
    with pytest.raises(UsageError, match="up to 600 s"):
        spaces.cut_link("balancer", 10_000)


@pytest.mark.root
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


@pytest.mark.root
def test_doctor_tries_the_changes_that_the_hosts_file_allows(spaces):
    checks = check_hosts(spaces.hosts_file, read_hosts(spaces.hosts_file), {})
    seen = {check.subject: check.status for check in checks if check.host == "web" and check.subject.startswith("may ")}
    can_delay = subprocess.run(["unshare", "-n", "tc", "qdisc", "add", "dev", "lo", "root", "netem"], check=False)
    delay = "ok" if can_delay.returncode == 0 else "doubt"
    assert seen == {"may sysctl": "ok", "may cgroup": "ok", "may nft": "ok", "may tc": delay, "may system": "ok"}
    assert sum(check.subject == "machine" for check in checks) <= 1
