"""Host keys are proven before any command runs; only `hosts trust` accepts one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from paramiko import ChannelException, PKey

from loadbook.cli.hosts import hosts as hosts_command
from loadbook.core.errors import HostKeyError, UnreachableError, UsageError
from loadbook.hosts import keys as known_hosts
from loadbook.hosts import ssh
from loadbook.hosts.inventory import HostEntry, read_hosts
from loadbook.hosts.keys import resolve_endpoint
from loadbook.hosts.remote import connect
from loadbook.hosts.ssh import close_connection, jump_host_error, open_connection
from loadbook.hosts.ssh_config import read_user_config
from waiting import PATIENCE_S


def make_key(folder: Path, name: str, kind: str = "ed25519") -> str:
    """Make a key pair; return "type blob"."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(folder / name)], check=True)
    return " ".join((folder / f"{name}.pub").read_text().split()[:2])


def key_of(text: str) -> PKey:
    line = known_hosts.parse_line(f"x {text}")
    assert line is not None
    return line.key


@pytest.fixture
def hosts_file(lab, tmp_path) -> Path:
    """A copy of the lab's hosts file with no trusted keys."""
    (tmp_path / "hosts.toml").write_text(lab.hosts_file.read_text())
    return tmp_path / "hosts.toml"


def logins(lab, alias: str) -> int:
    return (lab.folder / alias / "sshd.log").read_text().count("Accepted publickey")


def line_of(lab, alias: str) -> str:
    return (lab.folder / "known_hosts").read_text().splitlines()[list(lab.hosts).index(alias)]


@pytest.mark.fault(16)
def test_unknown_host_key_is_refused_before_login(lab, hosts_file):
    before = logins(lab, "web")
    with pytest.raises(HostKeyError) as caught:
        connect(hosts_file, "web")
    displayed = str(key_of(line_of(lab, "web").split(" ", 1)[1]).fingerprint)
    assert displayed.startswith("SHA256:")
    assert displayed in caught.value.message
    assert "host web" in caught.value.message
    assert "loadbook hosts trust" in caught.value.hint
    assert logins(lab, "web") == before


@pytest.mark.fault(16)
def test_changed_host_key_is_refused_before_login(lab, hosts_file, tmp_path):
    place, other = line_of(lab, "web").split(" ")[0], make_key(tmp_path, "other")
    (tmp_path / "known_hosts").write_text(f"{place} {other}\n")
    before = logins(lab, "web")
    with pytest.raises(HostKeyError, match="ANOTHER key") as caught:
        connect(hosts_file, "web")
    assert key_of(other).fingerprint in caught.value.message
    assert "--replace" in caught.value.hint
    assert logins(lab, "web") == before


@pytest.mark.fault(16)
def test_revoked_host_key_is_refused(lab, hosts_file, tmp_path):
    line = line_of(lab, "web")
    (tmp_path / "known_hosts").write_text(f"{line}\n@revoked {line}\n")
    before = logins(lab, "web")
    with pytest.raises(HostKeyError, match="REVOKED in known_hosts: ssh-ed25519 SHA256:"):
        connect(hosts_file, "web")
    assert logins(lab, "web") == before
    reported = CliRunner().invoke(hosts_command, ["trust", "--hosts", str(hosts_file), "web", "--yes", "--replace"])
    assert isinstance(reported.exception, HostKeyError) and "REVOKED" in reported.exception.message
    assert (tmp_path / "known_hosts").read_text() == f"{line}\n@revoked {line}\n"


@pytest.mark.fault(16)
def test_host_keys_of_jump_hosts_are_checked(lab, tmp_path):
    near, far = (read_hosts(lab.hosts_file).hosts[a] for a in ("driver", "web"))
    text = f"Host near\n HostName {near.address}\n Port {near.port}\n IdentityFile {near.identity_file}\n"
    text += f"Host far\n HostName {far.address}\n Port {far.port}\n IdentityFile {far.identity_file}\n ProxyJump near\n"
    (tmp_path / "config").write_text(text)
    config = read_user_config(tmp_path / "config")
    end = resolve_endpoint("far", HostEntry(roles=("web",)), tmp_path / "known_hosts", config)
    (tmp_path / "known_hosts").write_text(line_of(lab, "web") + "\n")
    with pytest.raises(HostKeyError, match="host near"):
        open_connection(end)
    assert [hop.alias for hop in ssh.login_chain(end)] == ["near", "far"]
    place, other = line_of(lab, "driver").split(" ")[0], make_key(tmp_path, "other")
    (tmp_path / "known_hosts").write_text(f"{place} {other}\n{line_of(lab, 'web')}\n")
    with pytest.raises(HostKeyError, match=r"host near: .* ANOTHER key"):
        open_connection(end)
    (tmp_path / "known_hosts").write_text(line_of(lab, "web") + "\n")
    ssh.store_keys(
        tmp_path / "known_hosts", ssh.login_chain(end)[0], ssh.offered_keys(ssh.login_chain(end)[0]), replace=False
    )
    assert [offer.status for offer in ssh.check_offered_keys(end)] == ["trusted"]
    connection = open_connection(end)
    _, answer, _ = connection.client.exec_command("echo $SSH_CONNECTION", timeout=PATIENCE_S)
    assert str(far.address) in answer.read().decode()
    close_connection(connection)


def test_error_names_a_jump_host_that_refuses_forwarding(lab, tmp_path):
    near = read_hosts(lab.hosts_file).hosts["driver"]
    text = f"Host near\n HostName {near.address}\n Port {near.port}\n IdentityFile {near.identity_file}\n"
    text += f"Host far\n HostName {near.address}\n Port 9\n ProxyJump near\n"
    (tmp_path / "config").write_text(text)
    config = read_user_config(tmp_path / "config")
    end = resolve_endpoint("far", HostEntry(roles=("web",)), tmp_path / "known_hosts", config)
    (tmp_path / "known_hosts").write_text(line_of(lab, "driver") + "\n")
    for ask in (open_connection, ssh.check_offered_keys):
        with pytest.raises(
            UnreachableError, match=rf"host far: near makes no connection to {near.address}:9: "
        ) as reported:
            ask(end)
        assert "from near" in (reported.value.hint or "")
    forbidden = jump_host_error(end, ChannelException(1, "Administratively prohibited"))
    assert "the sshd of near forbids it: AllowTcpForwarding" in (forbidden.hint or "")


def test_trust_command_shows_keys_and_asks_before_storing_and_reports_changed_keys(lab, hosts_file, tmp_path):
    command = ["trust", "--hosts", str(hosts_file)]
    requested = CliRunner().invoke(hosts_command, command)
    assert isinstance(requested.exception, UsageError)
    assert requested.output.count("\tnew\tssh-ed25519 SHA256:") == 2  # all of them are shown, though nobody can answer
    assert not (tmp_path / "known_hosts").exists()
    done = CliRunner().invoke(hosts_command, [*command, "--yes"])
    assert done.exit_code == 0
    assert done.output.count("\tnew\tssh-ed25519 SHA256:") == 2
    assert (tmp_path / "known_hosts").read_text() == (lab.folder / "known_hosts").read_text()
    connect(hosts_file, "web").close()
    assert CliRunner().invoke(hosts_command, command).output.count("\ttrusted\t") == 2

    place, other = line_of(lab, "web").split(" ")[0], make_key(tmp_path, "other")
    (tmp_path / "known_hosts").write_text(f"# mine\nelse.where {other}\n{place} {other}\n")
    changed = CliRunner().invoke(hosts_command, [*command, "web", "--yes"])
    assert isinstance(changed.exception, HostKeyError)
    assert "\tCHANGED\t" in changed.output
    assert CliRunner().invoke(hosts_command, [*command, "web", "--yes", "--replace"]).exit_code == 0
    kept = f"# mine\nelse.where {other}\n{line_of(lab, 'web')}\n"
    assert (tmp_path / "known_hosts").read_text() == kept
    listed = CliRunner().invoke(hosts_command, ["list", "--hosts", str(hosts_file)]).output
    assert "NOT trusted" in listed.splitlines()[0] and "1 trusted key" in listed.splitlines()[1]
