"""Servers that want what we do not type, keys that are locked, agents that hang; certificates and wildcards."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loadbook.core.errors import AuthError, HostKeyError
from loadbook.hosts import logins as login_keys
from loadbook.hosts.lab import Lab
from loadbook.hosts.remote import connect
from waiting import wait_until

PAM = os.geteuid() == 0 and Path("/etc/pam.d/sshd").is_file()


def refused(lab: Lab) -> AuthError:
    """Return how the login is refused."""
    with pytest.raises(AuthError) as caught:
        connect(lab.hosts_file, "web")
    return caught.value


@pytest.mark.fault(17)
@pytest.mark.parametrize(
    "settings",
    [
        ("PubkeyAuthentication no", "PasswordAuthentication yes"),
        ("AuthenticationMethods publickey,password", "PasswordAuthentication yes"),
        pytest.param(
            ("AuthenticationMethods publickey,keyboard-interactive", "KbdInteractiveAuthentication yes", "UsePAM yes"),
            marks=pytest.mark.skipif(not PAM, reason="only root's sshd asks PAM: make test as root"),
        ),
    ],
)
def test_host_that_requires_a_password_is_refused_at_once(server, settings, record_property):
    error = refused(server(*settings))
    assert "which loadbook never types" in error.message and "ssh-copy-id" in error.hint
    record_property("seen", error.message)


def locked(lab: Lab) -> Path:
    key = lab.folder / "user_key"
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", str(key)], check=True)
    return key


@pytest.mark.fault(17)
def test_passphrase_protected_key_is_reported_and_works_from_the_ssh_agent(server, tmp_path, monkeypatch):
    lab = server()
    key = locked(lab)
    error = refused(lab)
    assert f"the key {key} for " in error.message and "there is no SSH agent" in error.message
    assert error.hint == f'unlock it for this session: eval "$(ssh-agent)" && ssh-add {key}'
    path = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    try:
        wait_until(path.exists)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        assert "the SSH agent has no key for it" in refused(lab).message
        ask = tmp_path / "ask"
        ask.write_text("#!/bin/sh\necho open sesame\n")
        ask.chmod(0o700)
        asking = os.environ | {"SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
        subprocess.run(["ssh-add", "-q", str(key)], env=asking, check=True, stdin=subprocess.DEVNULL, timeout=20)
        connect(lab.hosts_file, "web").close()
    finally:
        agent.terminate()
        agent.wait()
    assert f"the SSH agent at {path} does not answer" in refused(lab).message


@pytest.mark.fault(17)
def test_hanging_ssh_agent_does_not_block_the_login(server, tmp_path, monkeypatch):
    lab = server()
    with socket.socket(socket.AF_UNIX) as hanging:
        hanging.bind(str(tmp_path / "agent"))
        hanging.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        connect(lab.hosts_file, "web").close()  # its key is not locked
        locked(lab)
        assert "does not answer" in refused(lab).message


@pytest.mark.fault(17)
def test_login_without_any_key_is_reported(server, tmp_path, monkeypatch):
    lab = server()
    text = lab.hosts_file.read_text()
    lab.hosts_file.write_text("".join(line for line in text.splitlines(True) if "identity_file" not in line))
    monkeypatch.setattr(login_keys, "home_folder", lambda: tmp_path)
    error = refused(lab)
    assert "no key to log in with" in error.message and "identity_file" in error.hint


@pytest.mark.fault(17)
@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_passphrase_protected_key_of_every_type_is_distinguished_from_a_refused_one(server, tmp_path, kind):
    lab = server()
    key = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(key)], check=True)
    lab.hosts_file.write_text(lab.hosts_file.read_text().replace(str(lab.folder / "user_key"), str(key)))
    assert "login as" in refused(lab).message
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", str(key)], check=True)
    assert f"the key {key} for " in refused(lab).message


@pytest.mark.fault(17)
def test_login_without_a_terminal_fails_with_a_message(server, record_property):
    """As cron starts it: no terminal, nothing to read."""
    lab = server()
    locked(lab)
    text = f"""
from loadbook.cli import main
import sys
sys.argv = ["loadbook", "run", "aa", "--hosts", {str(lab.hosts_file)!r}]
main()
"""
    from recorded_run import with_studies

    layout = with_studies(lab.folder.parent / "home")
    hosts = lab.hosts_file.read_text().replace('roles = ["web"]', 'roles = ["driver", "web"]')
    lab.hosts_file.write_text(hosts)
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", text], env=os.environ | {"LOADBOOK_HOME": str(layout.root)}, check=False,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, start_new_session=True,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "is locked by a passphrase" in done.stderr and "ssh-add" in done.stderr
    record_property("seen", f"a batch ends {time.monotonic() - begun:.1f} s after its start with exit code 3")


def logins(lab: Lab) -> int:
    return (lab.folder / "web" / "sshd.log").read_text().count("Accepted publickey")


def certified(lab: Lab, tmp_path: Path) -> str:
    """Give the host a certificate (read at its next start); return the authority's public key."""
    authority, key = tmp_path / "authority", lab.folder / "web" / "host_key.pub"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(authority)], check=True)
    subprocess.run(["ssh-keygen", "-q", "-s", str(authority), "-I", "web", "-h", str(key)], check=True)
    return " ".join(Path(f"{authority}.pub").read_text().split()[:2])


@pytest.mark.fault(16)
def test_known_hosts_certificate_authorities_are_ignored_and_wildcards_apply(server, tmp_path):
    lab = server(f"HostCertificate {tmp_path}/lab/web/host_key-cert.pub")
    authority = certified(lab, tmp_path)
    lab.down()
    lab.up()
    own = (lab.folder / "known_hosts").read_text().split(" ", 1)[1]
    (lab.folder / "known_hosts").write_text(f"@cert-authority [127.251.*]:* {authority}\n")
    before = logins(lab)
    with pytest.raises(HostKeyError, match=r"not trusted: ssh-ed25519 SHA256:.* certificates .* cannot be checked"):
        connect(lab.hosts_file, "web")
    assert logins(lab) == before
    (lab.folder / "known_hosts").write_text(f"[127.251.*]:*,![127.251.8.1]:* {own}")
    with pytest.raises(HostKeyError, match="not trusted"):
        connect(lab.hosts_file, "web")
    assert logins(lab) == before
    (lab.folder / "known_hosts").write_text(f"[127.251.*]:* {own}")
    connect(lab.hosts_file, "web").close()
    (lab.folder / "known_hosts").write_text(f"[127.251.*]:* {own}@revoked * {own}")
    with pytest.raises(HostKeyError, match="REVOKED"):
        connect(lab.hosts_file, "web")
