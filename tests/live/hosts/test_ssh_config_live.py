"""The user's SSH configuration, read by ssh itself: what it includes, matches and jumps over; its mistakes."""

from __future__ import annotations

import getpass
import hashlib
import os
import shutil
import socket
from pathlib import Path

import pytest

from command_line import exit_code
from loadbook.core.errors import StudyError, UsageError
from loadbook.hosts import ssh_config
from loadbook.hosts.inventory import HostEntry, read_hosts
from loadbook.hosts.keys import Endpoint, resolve_endpoint
from loadbook.hosts.lab import Lab
from loadbook.hosts.ssh import close_connection, login_chain, open_connection
from loadbook.hosts.ssh_config import read_user_config
from own_ssh import own_ssh
from waiting import PATIENCE_S

ENTRY = HostEntry(roles=("web",))


def block(name: str, lab: Lab, alias: str, *lines: str) -> str:
    """Return the block of a host of the lab for an SSH configuration."""
    at = read_hosts(lab.hosts_file).hosts[alias]
    lines = (f"HostName {at.host_name}", f"Port {at.port}", f"IdentityFile {at.identity_file}", *lines)
    return "\n  ".join([f"Host {name}", *lines]) + "\n"


def server_seen_from(end: Endpoint) -> list[str]:
    """Log in and return address and port of the server, as its session has them."""
    connection = open_connection(end)
    try:
        _, answer, _ = connection.client.exec_command("echo $SSH_CONNECTION", timeout=PATIENCE_S)
        return answer.read().decode().split()[2:]
    finally:
        close_connection(connection)


def place(lab: Lab, alias: str) -> list[str]:
    at = read_hosts(lab.hosts_file).hosts[alias]
    return [str(at.host_name), str(at.port)]


def endpoint(lab: Lab, config: Path, name: str, entry: HostEntry = ENTRY) -> Endpoint:
    return resolve_endpoint(name, entry, lab.folder / "known_hosts", read_user_config(config))


@pytest.fixture
def config(tmp_path) -> Path:
    """A configuration that includes all files of a folder."""
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "config").write_text(f"Include {tmp_path}/conf.d/*.conf\n")
    return tmp_path / "config"


def test_host_of_an_included_file_is_logged_in_to(lab, config):
    (config.parent / "conf.d/50-web.conf").write_text(block("web1", lab, "web"))
    (config.parent / "conf.d/ignored").write_text("Host web1\n  Port 9\n")
    assert server_seen_from(endpoint(lab, config, "web1")) == place(lab, "web")


def test_hosts_list_shows_what_the_included_file_of_the_user_says(lab, config, tmp_path, monkeypatch, capsys):
    (config.parent / "conf.d/web.conf").write_text("Host web1\n  HostName 192.0.2.7\n  User me\n  Port 2200\n")
    monkeypatch.setenv("PATH", f"{own_ssh(tmp_path / 'bin', config)}:{os.environ['PATH']}")
    (tmp_path / "hosts.toml").write_text('[hosts.web1]\nroles = ["web"]\n')
    assert exit_code(monkeypatch, "hosts", "list", "--hosts", str(tmp_path / "hosts.toml")) == 0
    assert "me@192.0.2.7:2200" in capsys.readouterr().out


def test_match_blocks_decide_the_port(lab, config, tmp_path):
    port = read_hosts(lab.hosts_file).hosts["web"].port
    text = f'Match originalhost web1 exec "test -e {tmp_path}/moved"\n  Port {port}\n'
    text += "Match originalhost web1 user nobody\n  Port 8\nMatch originalhost web1\n  Port 9\n"
    (config.parent / "conf.d/web.conf").write_text(text + block("web1", lab, "web"))
    assert endpoint(lab, config, "web1").port == 9
    assert endpoint(lab, config, "web1", HostEntry(roles=("web",), user="nobody")).port == 8
    (tmp_path / "moved").touch()
    ssh_config.ask_ssh.cache_clear()
    assert server_seen_from(endpoint(lab, config, "web1")) == place(lab, "web")


def test_jump_host_of_an_included_file_is_jumped_over(lab, config):
    (config.parent / "conf.d/gate.conf").write_text(block("gate", lab, "driver"))
    config.write_text(block("far", lab, "web", "ProxyJump gate") + f"Host *\n  Include {config.parent}/conf.d/*\n")
    end = endpoint(lab, config, "far")
    assert [hop.alias for hop in login_chain(end)] == ["gate", "far"]
    assert server_seen_from(end) == place(lab, "web")


def test_chain_of_jump_hosts_with_users_and_tokens_is_jumped_over(lab, config):
    user = read_hosts(lab.hosts_file).hosts["web"].user
    (config.parent / "conf.d/gates.conf").write_text(block("gate", lab, "driver") + block("inner-far", lab, "web"))
    config.write_text(config.read_text() + block("far", lab, "driver", f"ProxyJump {user}@gate,inner-%n"))
    end = endpoint(lab, config, "far")
    assert [hop.alias for hop in login_chain(end)] == ["gate", "inner-far", "far"]
    assert server_seen_from(end) == place(lab, "driver")


READERS = pytest.mark.parametrize("has_ssh", [True, False], ids=["ssh", "no ssh"])


def without_ssh(monkeypatch, has_ssh: bool) -> None:
    if not has_ssh:
        monkeypatch.setattr(ssh_config, "ssh_program", lambda: None)


@READERS
@pytest.mark.parametrize(
    ("value", "file"),
    [
        ("{keys}/key_%n # of this host", "key_web1"),
        ("{keys}/%p-%i-%k-%u-%r", "{port}-{uid}-web1-{user}-{user}"),
        ("${{KEYDIR}}/bench", "bench"),
        ('"{keys}/my key" # quoted', "my key"),
        ("%d/../{keys}/%C", "{hash}"),
    ],
)
def test_key_is_found_by_its_tokens_and_variables(lab, config, tmp_path, monkeypatch, has_ssh, value, file):
    without_ssh(monkeypatch, has_ssh)
    monkeypatch.setenv("KEYDIR", str(tmp_path))
    at = read_hosts(lab.hosts_file).hosts["web"]
    lines = [f"HostName {at.host_name}", f"Port {at.port} # of its sshd", f"User {at.user} # the account"]
    named = value.format(keys=os.path.relpath(tmp_path, "/") if value.startswith("%d") else tmp_path)
    named = named.replace("%d/..", "%d" + "/.." * len(ssh_config.home_folder().parts))
    (config.parent / "conf.d/web.conf").write_text(
        "\n  ".join(["Host web1 # one", *lines, f"IdentityFile {named}", "IdentitiesOnly yes"]) + "\n"
    )
    digest = hashlib.sha1(f"{socket.gethostname()}{at.host_name}{at.port}{at.user}".encode()).hexdigest()
    file = file.format(port=at.port, uid=os.getuid(), user=at.user, hash=digest)
    shutil.copy(read_hosts(lab.hosts_file).hosts["web"].identity_file, tmp_path / file)
    end = endpoint(lab, config, "web1")
    assert end.user == at.user and [os.path.realpath(path) for path in end.identity_files] == [f"{tmp_path}/{file}"]
    assert server_seen_from(end) == place(lab, "web")


@READERS
@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_jump_host_with_an_address_of_ipv6_is_jumped_over(server, config, monkeypatch, has_ssh):
    without_ssh(monkeypatch, has_ssh)
    lab = server("ListenAddress ::1")
    at = read_hosts(lab.hosts_file).hosts["web"]
    known = lab.folder / "known_hosts"
    known.write_text(known.read_text() + f"[::1]:{at.port} " + known.read_text().split(" ", 1)[1])
    for hop in (f"{at.user}@[::1]:{at.port}", f"[::1]:{at.port} # the gate"):
        config.write_text(block("far", lab, "web", f"ProxyJump {hop}") + f"Host *\n  IdentityFile {at.identity_file}\n")
        ssh_config.ask_ssh.cache_clear()
        end = endpoint(lab, config, "far")
        assert end.jump.destination == f"{at.user}@::1:{at.port}"
        assert server_seen_from(end) == place(lab, "web")


RICH = """
Include conf.d/*.conf ~/.ssh/no-such-file
Host web* !web3
  Include {folder}/nested # within a block
  User rich
Host *
  Port 2222
  ProxyCommand none
"""


@READERS
def test_included_files_and_nested_blocks_are_read_alike_by_both_readers(lab, config, monkeypatch, has_ssh):
    without_ssh(monkeypatch, has_ssh)
    (config.parent / "nested").write_text("Host web2 db1\n  User nested # x\nMatch all\n  Port 2200\n")
    config.write_text(RICH.format(folder=config.parent))
    found = {name: endpoint(lab, config, name).destination for name in ("web1", "web2", "web3", "db1")}
    me = getpass.getuser()
    assert found == {
        "web1": "rich@web1:2200",
        "web2": "nested@web2:2200",
        "web3": f"{me}@web3:2222",
        "db1": f"{me}@db1:2222",
    }


def test_hosts_file_takes_precedence_over_the_ssh_configuration(lab, config):
    (config.parent / "conf.d/web.conf").write_text("Host web1\n  HostName 192.0.2.1\n  Port 9\n  ProxyJump nowhere\n")
    end = endpoint(lab, config, "other", read_hosts(lab.hosts_file).hosts["web"].model_copy(update={"ssh": "web1"}))
    assert end.jump is None and server_seen_from(end) == place(lab, "web")


def test_mistake_of_the_ssh_configuration_is_reported_with_its_file_and_line(lab, config):
    file = config.parent / "conf.d/bad.conf"
    file.write_text("Host web1\n  Portt 22\n")
    with pytest.raises(UsageError, match=rf"{file}.* line 2: Bad configuration option: portt") as refused:
        endpoint(lab, config, "web1")
    assert "settings of web1" in refused.value.message and refused.value.hint.endswith("ssh -G web1")


def test_circle_of_jump_hosts_is_reported(lab, config):
    config.write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\nHost self\n  ProxyJump self\n")
    with pytest.raises(UsageError, match="more than 8 hops"):
        endpoint(lab, config, "a")
    with pytest.raises(UsageError, match="loop"):
        endpoint(lab, config, "self")


def test_hanging_command_of_match_exec_is_reported(lab, config, monkeypatch):
    config.write_text('Match exec "sleep 30"\n  Port 9\n')
    monkeypatch.setattr(ssh_config, "ASK_TIMEOUT_S", 0.5)
    with pytest.raises(UsageError, match=r"ssh -G web1: no answer within 0\.5 s") as refused:
        endpoint(lab, config, "web1")
    assert "Match exec" in refused.value.hint


def test_ssh_is_asked_once_for_each_name(config, tmp_path):
    config.write_text(f'Match exec "echo %n >> {tmp_path}/asked"\n  Port 9\n')
    for name in ("web1", "web1", "web2", "web1"):
        read_user_config(config).lookup(name)
    # ssh itself reads a configuration twice if it has canonical names
    assert (tmp_path / "asked").read_text().split() == ["web1", "web2"]


@pytest.mark.fault(43)
def test_name_that_looks_like_an_option_is_none(config, tmp_path):
    for name in (f"-oProxyCommand=touch {tmp_path}/PWN", "-V", "$(touch PWN)"):
        with pytest.raises(UsageError, match="invalid characters"):
            read_user_config(config).lookup(name)
    assert not (tmp_path / "PWN").exists()


@pytest.mark.fault(43)
def test_ssh_config_match_exec_never_runs_text_of_the_hosts_file(tmp_path):
    """A name with a command in it would run here: ssh puts it into the line of `Match exec`."""
    (tmp_path / "config").write_text(f'Match exec "test %h = x || touch {tmp_path}/seen"\n  User me\n')
    resolve_endpoint("web1", ENTRY, tmp_path / "known", read_user_config(tmp_path / "config"))
    assert (tmp_path / "seen").exists()  # it is asked with the names that are allowed
    file = tmp_path / "hosts.toml"
    file.write_text(f'[hosts.web]\nroles = ["web"]\nssh = "$(touch {tmp_path}/PWN)"\n')
    with pytest.raises(StudyError, match=r"hosts\.web\.ssh: must be a host name"):
        read_hosts(file)
    assert not (tmp_path / "PWN").exists()
