"""The hosts file: every mistake is named, and what is left out has a default that two aliases do not share."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hostile_texts import CORPUS, HTML, PATHS, SHELL, TEMPLATES, TERMINAL, silent
from loadbook.core.errors import StudyError, UsageError
from loadbook.hosts.inventory import HostEntry, HostsFile, format_entry, read_hosts
from loadbook.hosts.keys import Endpoint
from loadbook.hosts.remote import RemoteHost


def test_hosts_file_errors_name_the_key_path(tmp_path):
    file = tmp_path / "hosts.toml"
    file.write_text('[hosts.a]\nroles = "driver"\nprt = 22\n[hosts.b]\nroles = ["web"]\nport = 99999\n[host.x]\n')
    with pytest.raises(StudyError) as refused:
        read_hosts(file)
    found = {problem.path: problem.message for problem in refused.value.problems}
    assert set(found) == {"hosts.a.roles", "hosts.a.prt", "hosts.b.port", "host"}
    assert found["hosts.a.prt"] == "unknown key; did you mean 'port'?"
    assert "99999" in found["hosts.b.port"]


def test_hosts_file_reads_permissions_prices_and_link_rate(tmp_path):
    file = tmp_path / "hosts.toml"
    file.write_text(
        'currency = "EUR"\n[hosts.a]\nroles = ["web"]\nallow = ["sysctl", "tc"]\nservice_port = 80\n'
        'price_per_month = 8.5\nlink_mbit = 1000\n[hosts.b]\nroles = ["driver"]\n'
    )
    known = read_hosts(file)
    allowed, default = known.hosts["a"], known.hosts["b"]
    assert (allowed.allow, allowed.price_per_month, allowed.link_mbit) == (("sysctl", "tc"), 8.5, 1000)
    assert (default.allow, default.price_per_month, default.link_mbit) == ((), None, None)
    assert (known.currency, allowed.service_port) == ("EUR", 80)


def test_hosts_file_refuses_unknown_permissions_and_invalid_prices(tmp_path):
    file = tmp_path / "hosts.toml"
    file.write_text('[hosts.a]\nroles = ["web"]\nallow = ["reboot"]\nprice_per_month = 0\nlink_mbit = -1\n')
    with pytest.raises(StudyError) as refused:
        read_hosts(file)
    found = {problem.path: problem.message for problem in refused.value.problems}
    assert set(found) == {"hosts.a.allow.0", "hosts.a.price_per_month", "hosts.a.link_mbit"}
    assert "'sysctl', 'tc', 'cgroup'" in found["hosts.a.allow.0"]


NAMES = ("roles", "ssh", "address", "host_name", "user", "workdir")
# of the corpus, what is a name of a host, a user or a role after all
PLAIN = frozenset(("NA", "null", "nan", "1e400", "-0", "None", "class", "print"))


@pytest.mark.fault(43)
@pytest.mark.parametrize("field", NAMES)
def test_host_names_are_validated_before_use(field):
    """`Match exec` and ProxyCommand of ~/.ssh/config, scripts and configurations get these texts."""
    for text in (*SHELL, *PATHS, *HTML, *TERMINAL, *TEMPLATES):
        entry = {"roles": ["web"], field: [text] if field == "roles" else text}
        if field == "workdir" and text == "/etc/passwd":  # a folder by its name
            continue
        with pytest.raises(ValidationError):
            HostEntry.model_validate(entry)
    assert HostEntry.model_validate({"roles": ["web"]}).workdir is None


@pytest.mark.fault(43)
def test_host_aliases_are_validated(tmp_path):
    for text in (t for t in CORPUS if t not in PLAIN):
        with pytest.raises(ValidationError):
            HostsFile.model_validate({"hosts": {text: {"roles": ["web"]}}})
    with pytest.raises(ValidationError):
        HostsFile.model_validate({"hosts": {"x" * 64: {"roles": ["web"]}}})


def test_hosts_file_accepts_usual_addresses_users_and_folders():
    for address in ("web1", "192.0.2.1", "2001:db8::1", "::1", "fe80::1%eth0", "a-b.example.org", "_x"):
        assert HostEntry(roles=("web",), address=address, ssh=address, host_name=address).address == address
    for address, words in (
        ("[::1]", "(IPv6 without brackets: 2001:db8::5)"),
        ("192.0.2.1:80", "a port does not belong"),
    ):
        with pytest.raises(ValidationError) as refused:
            HostEntry(roles=("web",), host_name=address)
        assert words in str(refused.value)
    for user in ("root", "me", "first.last", "me@example.org", "a_b-c"):
        assert HostEntry(roles=("web",), user=user).user == user
    for folder in ("/tmp/x", "/home/me/My Projects/größe-1_2+3@4", "/"):
        assert HostEntry(roles=("web",), workdir=folder).workdir == folder


@pytest.mark.fault(54)
def test_hosts_file_refuses_secrets_and_never_prints_them(tmp_path):
    file = tmp_path / "hosts.toml"
    keys = ("password", "passphrase", "token", "key", "sudo_password", "env")
    file.write_text('[hosts.web]\nroles = ["web"]\n' + "".join(f'{key} = "hunter2"\n' for key in keys))
    with pytest.raises(StudyError) as refused:
        read_hosts(file)
    assert {problem.path for problem in refused.value.problems} == {f"hosts.web.{key}" for key in keys}
    assert "hunter2" not in refused.value.message and silent(refused.value.message)


def test_missing_hosts_file_error_names_the_next_step(tmp_path):
    with pytest.raises(UsageError, match="not there") as refused:
        read_hosts(tmp_path / "mine.toml")
    assert "docs/tutorial.md" in refused.value.hint


def test_aliases_of_one_machine_have_separate_work_folders():
    ends = [Endpoint(alias, "192.0.2.1", 22, "me", "192.0.2.1", ()) for alias in ("load1", "web1")]
    first, second = (RemoteHost(end, HostEntry(roles=("driver",)), "run") for end in ends)
    assert first.workdir != second.workdir


def test_prices_of_hosts_are_recorded_and_hosts_without_one_left_out():
    hosts = {"a": HostEntry(roles=("web",), price_per_month=8.5), "b": HostEntry(roles=("driver", "web"))}
    known = HostsFile(hosts=hosts, currency="EUR", external_prices={"lb": 12})
    assert known.price_record() == {"currency": "EUR", "hosts": {"a": 8.5}, "external": {"lb": 12}}
    assert (known.with_role("web"), known.with_role("driver"), known.with_role("lb")) == (["a", "b"], ["b"], [])


def test_entry_of_a_hosts_file_is_read_as_it_was_written(tmp_path):
    file, values = tmp_path / "hosts.toml", {"roles": ["web"], "port": 2300, "cpus": [1, 2], "workdir": "/srv/größe"}
    file.write_text("\n".join(format_entry(alias, values) for alias in ("web", "web-2")))
    known = read_hosts(file).hosts
    assert list(known) == ["web", "web-2"] and known["web-2"] == HostEntry.model_validate(values)


def test_hosts_file_that_is_a_folder_or_names_a_key_twice_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"hosts file .*: Is a directory"):
        read_hosts(tmp_path)
    (tmp_path / "hosts.toml").write_text('[hosts.a]\nroles = ["web"]\nallow = ["tc"]\nmay = ["tc"]\n')
    with pytest.raises(StudyError, match="allow"):
        read_hosts(tmp_path / "hosts.toml")
