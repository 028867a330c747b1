"""Agents with many keys, keys that only an agent has, agents of the configuration, and certificates."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from loadbook.core.errors import AuthError
from loadbook.hosts import ssh_config
from loadbook.hosts.inventory import HostEntry, read_hosts
from loadbook.hosts.keys import Endpoint, resolve_endpoint
from loadbook.hosts.lab import Lab
from loadbook.hosts.ssh import close_connection, open_connection


def new_key(folder: Path, name: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    return folder / name


@pytest.fixture
def full_agent(lab, agent, tmp_path, monkeypatch) -> Path:
    """The socket of an agent with nine keys, more than MaxAuthTries (6); the accepted one is the last."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    others = [new_key(tmp_path, f"other-{number}") for number in range(8)]
    return agent([*others, lab.folder / "user_key"])


def endpoint(lab: Lab, folder: Path, *lines: str) -> Endpoint:
    """Return the lab's host web as a configuration with these lines names it."""
    at = read_hosts(lab.hosts_file).hosts["web"]
    lines = (f"HostName {at.host_name}", f"Port {at.port}", *lines)
    (folder / "config").write_text("\n  ".join(["Host web1", *lines]) + "\n")
    ssh_config.ask_ssh.cache_clear()
    config = ssh_config.read_user_config(folder / "config")
    return resolve_endpoint("web1", HostEntry(roles=("web",)), lab.folder / "known_hosts", config)


def test_identities_only_logs_in_beside_an_agent_with_too_many_keys(lab, full_agent, tmp_path, monkeypatch):
    monkeypatch.setenv("SSH_AUTH_SOCK", str(full_agent))
    only = "IdentitiesOnly yes"
    close_connection(open_connection(endpoint(lab, tmp_path, f"IdentityFile {lab.folder}/user_key", only)))
    # a key that only the agent has, which the configuration names by its public half
    shutil.copy(lab.folder / "user_key.pub", tmp_path / "mine.pub")
    for name in ("mine.pub", "mine"):
        files = [f"IdentityFile {tmp_path}/{file}" for file in ("other-0", name)]
        close_connection(open_connection(endpoint(lab, tmp_path, *files, only)))


def test_key_that_the_configuration_names_precedes_those_of_the_agent(lab, full_agent, tmp_path, monkeypatch):
    monkeypatch.setenv("SSH_AUTH_SOCK", str(full_agent))
    close_connection(open_connection(endpoint(lab, tmp_path, f"IdentityFile {lab.folder}/user_key")))


def test_refused_login_with_too_many_keys_of_an_agent_names_the_remedy(lab, full_agent, tmp_path, monkeypatch):
    monkeypatch.setenv("SSH_AUTH_SOCK", str(full_agent))
    with pytest.raises(AuthError, match=r"closed the connection after \d keys \(MaxAuthTries") as refused:
        open_connection(endpoint(lab, tmp_path))
    assert "IdentitiesOnly yes" in refused.value.hint


def test_agent_of_the_configuration_is_asked(lab, agent, tmp_path, monkeypatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    path = agent([lab.folder / "user_key"])
    close_connection(open_connection(endpoint(lab, tmp_path, "IdentityFile none", f"IdentityAgent {path}")))
    monkeypatch.setenv("MY_AGENT", str(path))
    close_connection(open_connection(endpoint(lab, tmp_path, "IdentityFile none", "IdentityAgent $MY_AGENT")))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    close_connection(open_connection(endpoint(lab, tmp_path, "IdentityFile none")))
    with pytest.raises(AuthError, match="there is no SSH agent"):
        open_connection(endpoint(lab, tmp_path, "IdentityFile none", "IdentityAgent none"))


def test_certificate_of_the_configuration_logs_in_with_its_key(server, agent, tmp_path):
    authority = new_key(tmp_path, "authority")
    key, other = new_key(tmp_path, "key"), new_key(tmp_path, "other")
    lab = server(f"TrustedUserCAKeys {authority}.pub")
    user = read_hosts(lab.hosts_file).hosts["web"].user
    subprocess.run(["ssh-keygen", "-q", "-s", str(authority), "-I", "me", "-n", str(user), f"{key}.pub"], check=True)
    certificate = (tmp_path / "key-cert.pub").rename(tmp_path / "elsewhere.pub")
    lines = [f"IdentityFile {other}", f"IdentityFile {key}", "IdentitiesOnly yes"]
    with pytest.raises(AuthError, match="refused"):
        open_connection(endpoint(lab, tmp_path, *lines))
    close_connection(open_connection(endpoint(lab, tmp_path, *lines, f"CertificateFile {certificate}")))
    # of an agent's key, too
    path = agent([other, key])
    key.unlink()
    end = endpoint(lab, tmp_path, *lines, f"CertificateFile {certificate}", f"IdentityAgent {path}")
    close_connection(open_connection(end))
    shutil.copy(certificate, tmp_path / "key-cert.pub")  # beside the key
    close_connection(open_connection(endpoint(lab, tmp_path, *lines, f"IdentityAgent {path}")))


@pytest.mark.parametrize("kind", ["of an unknown authority", "expired", "for another user", "no certificate"])
def test_plain_key_is_tried_after_its_refused_certificate(server, tmp_path, kind):
    """The plain key is in authorized_keys, so ssh logs in, too."""
    authority = new_key(tmp_path, "authority")
    trusts = [] if kind == "of an unknown authority" else [f"TrustedUserCAKeys {authority}.pub"]
    lab = server(*trusts)
    user = str(read_hosts(lab.hosts_file).hosts["web"].user)
    key = tmp_path / "key"
    for suffix in ("", ".pub"):
        shutil.copy(lab.folder / f"user_key{suffix}", f"{key}{suffix}")
    if kind == "no certificate":
        (tmp_path / "key-cert.pub").write_text("ssh-ed25519-cert-v01@openssh.com AAAA broken\n")
    else:
        validity = ["-V", "20200101:20200102"] if kind == "expired" else []
        name = "somebody" if kind == "for another user" else user
        sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "me", "-n", name, *validity, f"{key}.pub"]
        subprocess.run(sign, check=True)
    close_connection(open_connection(endpoint(lab, tmp_path, f"IdentityFile {key}", "IdentitiesOnly yes")))
