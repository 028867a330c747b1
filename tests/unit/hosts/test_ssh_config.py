"""What `ssh -G` prints becomes an endpoint; without ssh, the lines that Paramiko cannot read are named.

The captures are of OpenSSH 9.2; home folder and user are replaced.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loadbook.core.errors import IgnoredSettingsWarning, StudyError, UsageError
from loadbook.hosts import ssh_config
from loadbook.hosts.inventory import HostEntry
from loadbook.hosts.keys import Endpoint, resolve_endpoint
from loadbook.hosts.ssh_config import ParamikoConfig, parse_options, read_user_config

CAPTURES = Path(__file__).parents[2] / "fixtures/hosts"
ENTRY = HostEntry(roles=("web",))


class Captured:
    """A reader that answers with captures; unknown names have the settings of the name plain."""

    def __init__(self) -> None:
        self.requested: list[tuple[str, str | None, int | None]] = []

    def lookup(self, name: str, user: str | None = None, port: int | None = None) -> ssh_config.Options:
        self.requested.append((name, user, port))
        file = CAPTURES / f"ssh-9.2-G--{name}.txt"
        text = (file if file.exists() else CAPTURES / "ssh-9.2-G--plain.txt").read_text()
        overrides = {"user": user, "port": port}
        return parse_options(text) | {key: [str(value)] for key, value in overrides.items() if value is not None}


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(ssh_config, "home_folder", lambda: tmp_path)
    for name in (".ssh/work-me@far.bench.example.pub", "my keys/far"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def endpoint(name: str, entry: HostEntry = ENTRY, config: ssh_config.UserConfig | None = None) -> Endpoint:
    return resolve_endpoint(name, entry, Path("/ours"), config or Captured())


def test_settings_that_ssh_prints_become_an_endpoint_with_tokens_and_folders_replaced(home):
    end = endpoint("far")
    assert end.destination == "me@far.bench.example:2200" and end.host_key_alias == "far-key"
    assert end.identity_files == (f"{home}/.ssh/work-me@far.bench.example", f"{home}/my keys/far")
    assert end.certificate_files == (f"{home}/.ssh/work-cert.pub",)
    assert not end.use_agent and end.agent_socket == "/home/me/agents/far.bench.example"
    files = ["/ours", "/home/me/.ssh/known-far.bench.example", "/home/me/.ssh/known_hosts"]
    assert list(map(str, end.known_hosts)) == files and end.proxy_command is None


def test_each_host_of_a_jump_chain_is_asked_for_with_its_user_and_port(home):
    config = Captured()
    end = endpoint("far", config=config)
    assert config.requested[1:] == [("gate", "you", 2222), ("2001:db8::1", None, 24), ("inner-far", None, None)]
    hops = [end.jump, end.jump.jump, end.jump.jump.jump]
    assert [(hop.alias, hop.user, hop.port) for hop in hops] == [
        ("inner-far", "me", 22),
        ("2001:db8::1", "me", 24),
        ("gate", "you", 2222),
    ]
    assert hops[-1].jump is None


def test_default_settings_of_ssh_name_no_keys_and_no_agent(home):
    end = endpoint("plain")
    assert (end.identity_files, end.certificate_files, end.use_agent, end.agent_socket) == (None, (), True, None)
    assert (end.destination, end.host_key_alias, end.jump) == ("me@plain:22", "plain", None)


def test_settings_none_leave_out_keys_agent_known_hosts_and_jump(home):
    end = endpoint("none")
    assert (end.identity_files, end.agent_socket, end.known_hosts, end.jump) == ((), "", (Path("/ours"),), None)


def test_proxy_command_has_its_tokens_replaced_by_the_settings_in_force(home):
    end = endpoint("web", HostEntry(roles=("web",), ssh="proxied", port=2300))
    assert end.proxy_command == "nc -X connect -x proxy.example:3128 proxied 2300 # me on proxied, 100%"
    direct = endpoint("web", HostEntry(roles=("web",), ssh="proxied", host_name="192.0.2.1"))
    assert " 192.0.2.1 22 " in direct.proxy_command


def test_hosts_file_takes_precedence_over_what_ssh_prints(home):
    (home / "100%h").touch()
    entry = HostEntry(roles=("web",), ssh="far", user="them", host_name="192.0.2.1", identity_file=f"{home}/100%h")
    config = Captured()
    end = endpoint("web", entry, config)
    assert config.requested == [("far", "them", None)]
    assert (end.destination, end.jump, end.identity_files) == ("them@192.0.2.1:2200", None, (f"{home}/100%h",))
    assert end.certificate_files == () and not end.use_agent


@pytest.mark.parametrize(
    ("value", "socket"),
    [("SSH_AUTH_SOCK", None), ("$MINE", "/run/mine"), ("$THEIRS", ""), ("${MINE}-%r", "/run/mine-me"), ("none", "")],
)
def test_agent_of_the_configuration_is_a_path_or_a_variable(home, monkeypatch, value, socket):
    monkeypatch.setenv("MINE", "/run/mine")
    monkeypatch.delenv("THEIRS", raising=False)
    config = Captured()
    options = config.lookup("plain") | {"identityagent": [value]}
    monkeypatch.setattr(config, "lookup", lambda *arguments: options)
    assert endpoint("plain", config=config).agent_socket == socket


@pytest.mark.parametrize(
    ("value", "hop"),
    [
        ("you@[2001:db8::1]:2222", ("2001:db8::1", "you", 2222)),
        ("[::1]:22", ("::1", "me", 22)),
        ("[2001:db8::1]", ("2001:db8::1", "me", 22)),
        ("ssh://you@gate:2200", ("gate", "you", 2200)),
        ("gate:2200", ("gate", "me", 2200)),
    ],
)
def test_jump_host_may_be_an_address_of_ipv6_in_brackets(home, monkeypatch, value, hop):
    config, lookup = Captured(), Captured().lookup
    monkeypatch.setattr(
        config, "lookup", lambda name, *at: lookup("plain", *at) | ({"proxyjump": [value]} if name == "far" else {})
    )
    jump = endpoint("far", config=config).jump
    assert (jump.alias, jump.user, jump.port) == hop


def test_key_with_a_variable_that_is_not_set_is_a_mistake_with_its_name(home, monkeypatch):
    config = Captured()
    options = config.lookup("plain") | {"identityfile": ["${KEYDIR}/bench"]}
    monkeypatch.setattr(config, "lookup", lambda *arguments: options)
    monkeypatch.setenv("KEYDIR", f"{home}/my keys")
    (home / "my keys/bench").touch()
    assert endpoint("plain", config=config).identity_files == (f"{home}/my keys/bench",)
    monkeypatch.delenv("KEYDIR")
    with pytest.raises(UsageError) as refused:
        endpoint("plain", config=config)
    assert refused.value.message == "${KEYDIR}/bench: the variable KEYDIR is not set"
    assert refused.value.hint == "set it, or correct ~/.ssh/config"


def test_machine_without_ssh_reads_its_configuration_by_paramiko_and_warns_of_unread_lines(tmp_path):
    (tmp_path / "config").write_text("Match tagged lab\n  Port 9\nHost web1\n  HostName 192.0.2.1\n  User me # x\n")
    expected = (
        f"there is no ssh program here, and loadbook alone cannot read {tmp_path}/config line 1: Match tagged lab"
    )
    with pytest.warns(IgnoredSettingsWarning, match=re.escape(expected)):
        config = read_user_config(tmp_path / "config")
    assert isinstance(config, ParamikoConfig)
    assert config.lookup("web1") == {"hostname": ["192.0.2.1"], "user": ["me"]}
    assert config.lookup("web1", port=2300) == {"hostname": ["192.0.2.1"], "user": ["me"], "port": ["2300"]}
    assert read_user_config(tmp_path / "missing").lookup("web1") == {"hostname": ["web1"]}
    (tmp_path / "config").write_text("Match host\n")
    with pytest.raises(StudyError, match="config line 1: no value: Match host"):
        read_user_config(tmp_path / "config")
