"""An SSH configuration as Paramiko is given it: included files in their place, comments and unread blocks left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadbook.core.errors import StudyError
from loadbook.hosts import ssh_config
from loadbook.hosts.ssh_config import read_user_config
from loadbook.hosts.ssh_config_text import ConfigText


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The folder .ssh of a user."""
    monkeypatch.setattr(ssh_config, "home_folder", lambda: tmp_path)
    (tmp_path / ".ssh/conf.d").mkdir(parents=True)
    return tmp_path / ".ssh"


def settings(folder: Path, text: str, name: str) -> ssh_config.Options:
    """Return the settings of a name by a configuration with this text."""
    (folder / "config").write_text(text)
    return read_user_config(folder / "config").lookup(name)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("User bench # the account for benchmarks", "bench"),
        ("User bench #the account # for benchmarks", "bench"),
        ("User = bench#1", "bench#1"),
        ('User "bench #1" # a quoted value', "bench #1"),
        ("User\tbench\t#", "bench"),
    ],
)
def test_comment_after_a_value_is_no_part_of_it(folder, line, value):
    assert settings(folder, f"Host web2 # web3\n  {line}\n", "web2")["user"] == [value]
    assert "user" not in settings(folder, f"Host web2 # web3\n  {line}\n", "web3")


def test_command_of_a_proxy_keeps_its_comment_as_its_shell_reads_it(folder):
    assert settings(folder, "Host a\n  ProxyCommand nc %h 22 # a\n", "a")["proxycommand"] == ["nc %h 22 # a"]


@pytest.mark.parametrize(
    "value", ["conf.d/*.conf", "~/.ssh/conf.d/*.conf", "{folder}/conf.d/lab.conf", '"conf.d/l*" x']
)
def test_host_of_an_included_file_is_found(folder, value):
    (folder / "conf.d/lab.conf").write_text("Host web1\n  HostName 192.0.2.21\n  User bench\n")
    text = f"Include {value.format(folder=folder)} # files of the lab\nHost *\n  User other\n  Port 2200\n"
    assert settings(folder, text, "web1") == {"hostname": ["192.0.2.21"], "user": ["bench"], "port": ["2200"]}
    assert settings(folder, text, "web9") == {"hostname": ["web9"], "user": ["other"], "port": ["2200"]}


def test_included_block_applies_where_its_own_and_the_outer_criteria_hold(folder):
    (folder / "inner").write_text("Port 2200\nHost web1 db*\n  User inner\nMatch all\n  IdentityFile k\n")
    text = "Host web* !web3\n  Include inner\n  HostName %h.lab\nHost *\n  User outer\n"
    inner = {"port": ["2200"], "identityfile": ["k"]}
    assert settings(folder, text, "web1") == {"hostname": ["web1.lab"], "user": ["inner"], **inner}
    assert settings(folder, text, "web2") == {"hostname": ["web2.lab"], "user": ["outer"], **inner}
    assert settings(folder, text, "web3") == {"hostname": ["web3"], "user": ["outer"]}
    assert settings(folder, text, "db1") == {"hostname": ["db1"], "user": ["outer"]}


def test_tokens_and_variables_remain_in_values_to_be_replaced_like_those_of_ssh(folder):
    text = "Host web3\n  IdentityFile ~/.ssh/key_%n\n  IdentityFile ${KEYDIR}/%p-%i-%k-%h~\n"
    assert settings(folder, text, "web3")["identityfile"] == ["~/.ssh/key_%n", "${KEYDIR}/%p-%i-%k-%h~"]


MATCHES = """
Match tagged lab
  User tagged
Match !localnetwork 192.0.2.0/24 exec "Match version"
  User network
Match Final host "a b",c
Match host=web1
  Port 2200
Match originalhost web1 user include
"""


def test_blocks_of_match_that_cannot_be_read_are_named_and_apply_to_no_host(folder):
    (folder / "config").write_text(MATCHES)
    assert ConfigText(folder / "config", folder).unread == [
        f"{folder}/config line 2: Match tagged lab",
        f'{folder}/config line 4: Match !localnetwork 192.0.2.0/24 exec "Match version"',
    ]
    with pytest.warns(match="cannot read"):
        assert settings(folder, MATCHES, "web1") == {"hostname": ["web1"], "port": ["2200"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Host a\n  User # me\n", "config line 2: no value: User # me"),
        ("Include\n", "config line 1: no value: Include"),
        ("Include config\n", "config: more than 16 levels of Include"),
    ],
)
def test_mistake_is_named_with_its_file_and_line(folder, text, message):
    with pytest.raises(StudyError) as refused:
        settings(folder, text, "a")
    assert f"{folder}/{message}" in refused.value.message
