"""The keys of a login are tried in the order of the configuration, each once, first with its certificates."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    SSHCertificateBuilder,
    SSHCertificateType,
)
from paramiko import AuthenticationException, BadAuthenticationType, SSHException

from loadbook.hosts import logins
from loadbook.hosts.keys import Endpoint
from loadbook.hosts.logins import KeyLogin, login_error, login_keys

KEYS = {name: Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number, name in enumerate("abcd", 1)}
PUBLIC = {n: k.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode() for n, k in KEYS.items()}
NO_LOCK: KeySerializationEncryption = NoEncryption()


def private_key(folder: Path, name: str, lock: KeySerializationEncryption = NO_LOCK) -> str:
    (folder / name).write_bytes(KEYS[name].private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, lock))
    return str(folder / name)


def certificate(file: Path, name: str) -> str:
    now = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    builder = SSHCertificateBuilder().public_key(KEYS[name].public_key()).serial(1).type(SSHCertificateType.USER)
    builder = builder.key_id(b"me").valid_principals([b"me"]).valid_after(now).valid_before(now + 3600)
    file.write_bytes(builder.sign(KEYS["d"]).public_bytes())
    return str(file)


def endpoint(*files: str, **settings) -> Endpoint:
    return Endpoint("web", "192.0.2.1", 22, "me", "192.0.2.1", (), files or None, agent_socket="", **settings)


def tried(end: Endpoint) -> list[str]:
    """Return the names of the keys in the order of the login; with a + if it is by a certificate."""
    names = {public.split()[1]: name for name, public in PUBLIC.items()}
    return [names[key.get_base64()] + ("+" if key.public_blob else "") for key in login_keys(end)]


def test_keys_are_tried_once_in_the_order_of_the_configuration(tmp_path):
    a, b = private_key(tmp_path, "a"), private_key(tmp_path, "b")
    (tmp_path / "none").write_text("no key\n")
    assert tried(endpoint(b, str(tmp_path / "none"), a, b, str(tmp_path / "missing"))) == ["b", "a"]


def test_default_keys_of_ssh_are_tried_if_the_configuration_names_none(tmp_path, monkeypatch):
    monkeypatch.setattr(logins, "home_folder", lambda: tmp_path)
    (tmp_path / ".ssh").mkdir()
    Path(private_key(tmp_path, "c")).rename(tmp_path / ".ssh/id_ed25519")
    assert tried(endpoint()) == ["c"]
    assert tried(endpoint(private_key(tmp_path, "a"))) == ["a"]


def test_certificates_precede_the_key_that_they_are_for(tmp_path):
    a, b = private_key(tmp_path, "a"), private_key(tmp_path, "b")
    of_b = certificate(tmp_path / "elsewhere.pub", "b")
    certificate(tmp_path / "a-cert.pub", "a")
    certificates = (of_b, certificate(tmp_path / "third", "c"), str(tmp_path / "missing"), a)
    assert tried(endpoint(a, b, certificate_files=certificates)) == ["a+", "a", "b+", "b"]


class Transport:
    """A server with an answer to each key, which closes the connection after `limit` keys."""

    def __init__(self, answers: dict[str, list[str]], limit: int = 99) -> None:
        self.answers, self.limit, self.requested = answers, limit, 0

    def is_active(self) -> bool:
        return self.requested < self.limit

    def auth_publickey(self, user: str, key) -> list[str]:
        self.requested += 1
        names = {public.split()[1]: name for name, public in PUBLIC.items()}
        answer = self.answers.get(names[key.get_base64()])
        if answer is None:
            raise AuthenticationException("Authentication failed.")
        return answer


@pytest.fixture
def end(tmp_path) -> Endpoint:
    return endpoint(*(private_key(tmp_path, name) for name in "abc"))


def test_login_ends_with_the_first_key_that_is_accepted(end):
    login, server = KeyLogin(end), Transport({"b": []})
    login.authenticate(server)
    assert login.tries == server.requested == 2


def test_login_by_two_keys_goes_on_and_one_by_key_and_password_is_refused(end):
    KeyLogin(end).authenticate(Transport({"a": ["publickey"], "c": []}))
    with pytest.raises(BadAuthenticationType) as refused:
        KeyLogin(end).authenticate(Transport({"a": ["password"]}))
    assert "wants password, which loadbook never types" in login_error(end, refused.value).message


def test_login_stops_at_a_server_that_closes_the_connection(end):
    login = KeyLogin(end)
    with pytest.raises(AuthenticationException) as refused:
        login.authenticate(Transport({}, limit=2))
    error = login_error(end, refused.value, tries=login.tries, is_closed=True)
    assert "closed the connection after 2 keys" in error.message and "IdentitiesOnly yes" in error.hint


def test_login_without_a_key_that_can_be_used_is_refused(tmp_path):
    locked = private_key(tmp_path, "a", BestAvailableEncryption(b"open sesame"))
    end = endpoint(locked)
    with pytest.raises(SSHException) as refused:
        KeyLogin(end).authenticate(Transport({}))
    error = login_error(end, refused.value)
    assert f"the key {locked} for me@192.0.2.1:22 is locked" in error.message and f"ssh-add {locked}" in error.hint
    assert "no key to log in with" in login_error(endpoint(str(tmp_path / "missing")), refused.value).message
