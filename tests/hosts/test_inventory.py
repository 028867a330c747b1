"""The hosts file: every mistake is named, and what is left out has a default that two aliases do not share."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadbook.core.errors import StudyError, UsageError
from loadbook.hosts import connect
from loadbook.hosts.inventory import HostEntry, read_hosts
from loadbook.hosts.remote import RemoteHost
from loadbook.hosts.ssh_config import Endpoint


def test_every_mistake_is_named_by_its_key_path(tmp_path):
    file = tmp_path / "hosts.toml"
    file.write_text('[hosts.a]\nroles = "driver"\nprt = 22\n[hosts.b]\nroles = ["web"]\nport = 99999\n[host.x]\n')
    with pytest.raises(StudyError) as refused:
        read_hosts(file)
    found = {problem.path: problem.message for problem in refused.value.problems}
    assert set(found) == {"hosts.a.roles", "hosts.a.prt", "hosts.b.port", "host"}
    assert found["hosts.a.prt"] == "unknown key; did you mean 'port'?"
    assert "99999" in found["hosts.b.port"]


def test_what_a_host_may_costs_and_carries(tmp_path):
    file = tmp_path / "hosts.toml"
    file.write_text(
        'currency = "EUR"\n[hosts.a]\nroles = ["web"]\nmay = ["sysctl", "tc"]\nservice_port = 80\n'
        'price_per_month = 8.5\nlink_mbit = 1000\n[hosts.b]\nroles = ["driver"]\n'
    )
    known = read_hosts(file)
    allowed, default = known.hosts["a"], known.hosts["b"]
    assert (allowed.may, allowed.price_per_month, allowed.link_mbit) == (("sysctl", "tc"), 8.5, 1000)
    assert (default.may, default.price_per_month, default.link_mbit) == ((), None, None)
    assert (known.currency, allowed.service_port) == ("EUR", 80)


def test_what_nobody_may_and_what_costs_nothing_are_mistakes(tmp_path):
    file = tmp_path / "hosts.toml"
    file.write_text('[hosts.a]\nroles = ["web"]\nmay = ["reboot"]\nprice_per_month = 0\nlink_mbit = -1\n')
    with pytest.raises(StudyError) as refused:
        read_hosts(file)
    found = {problem.path: problem.message for problem in refused.value.problems}
    assert set(found) == {"hosts.a.may.0", "hosts.a.price_per_month", "hosts.a.link_mbit"}
    assert "'sysctl', 'tc', 'cgroup' or 'nft'" in found["hosts.a.may.0"]


def test_a_hosts_file_that_is_not_there_says_what_to_do(tmp_path):
    with pytest.raises(UsageError, match="not there") as refused:
        read_hosts(tmp_path / "mine.toml")
    assert "README" in refused.value.hint


def test_two_aliases_of_one_machine_have_folders_of_their_own():
    ends = [Endpoint(alias, "192.0.2.1", 22, "me", "192.0.2.1", ()) for alias in ("load1", "web1")]
    first, second = (RemoteHost(end, HostEntry(roles=("driver",)), "run") for end in ends)
    assert first.workdir != second.workdir


@pytest.mark.lab
def test_a_key_that_is_not_there_is_named(lab, tmp_path):
    file, known = tmp_path / "hosts.toml", Path(lab.hosts_file).with_name("known_hosts")
    file.write_text(lab.hosts_file.read_text().replace("user_key", "no_such_key"))
    (tmp_path / "known_hosts").write_bytes(known.read_bytes())
    with pytest.raises(UsageError, match="no_such_key is not there"):
        connect(file, "web")
