"""Host keys are proven before any command runs; only `hosts trust` accepts one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from paramiko import HostKeys, SSHConfig

from loadbook.core.errors import UsageError
from loadbook.hosts.inventory import HostEntry
from loadbook.hosts.keys import lookup_name, parse_line, resolve_endpoint, trusted_keys, untrusted_key_status
from loadbook.hosts.ssh_config import ParamikoConfig

OURS, THEIRS, OTHER = (
    Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    .public_key()
    .public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    .decode()
    for number in (1, 2, 3)
)


def as_paramiko_reads(text: str) -> ParamikoConfig:
    return ParamikoConfig(SSHConfig.from_text(text))


def test_ssh_config_fills_in_what_the_hosts_file_leaves_out(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "getfqdn", lambda: "here")  # paramiko looks it up for each IdentityFile
    (tmp_path / "key").write_text("")
    config = as_paramiko_reads(
        f"Host box\n HostName 10.1.2.3\n Port 2200\n User me\n IdentityFile {tmp_path}/key\n HostKeyAlias boxkey\n"
        f" UserKnownHostsFile {tmp_path}/theirs\n StrictHostKeyChecking no\nHost circle\n ProxyJump circle\n"
    )
    end = resolve_endpoint("web", HostEntry(roles=("web",), ssh="box", port=2300), tmp_path / "ours", config)
    assert (end.host_name, end.port, end.user, end.host_key_alias) == ("10.1.2.3", 2300, "me", "boxkey")
    assert end.known_hosts == (tmp_path / "ours", tmp_path / "theirs")
    assert end.identity_files == (str(tmp_path / "key"),)
    with pytest.raises(UsageError, match="more than"):
        resolve_endpoint("circle", HostEntry(roles=("web",)), tmp_path / "ours", config)


def test_ssh_config_names_the_hosts_to_jump_over(tmp_path):
    config = as_paramiko_reads(
        "Host far\n ProxyJump me@gate:2222,inner\n ProxyCommand nc %h %p\n IdentitiesOnly yes\n"
        "Host gate\n HostName 192.0.2.1\n User other\nHost inner\n Port 24\nHost plain\n ProxyJump none\n"
    )
    end = resolve_endpoint("web", HostEntry(roles=("web",), ssh="far"), tmp_path, config)
    assert (end.jump.host_name, end.jump.port) == ("inner", 24)
    assert end.jump.jump.destination == "me@192.0.2.1:2222" and end.jump.jump.jump is None
    assert end.proxy_command is None and end.use_agent is False
    direct = HostEntry(roles=("web",), ssh="far", host_name="198.51.100.7", state="/srv/state")
    assert resolve_endpoint("web", direct, tmp_path, config).jump is None
    assert resolve_endpoint("web", direct, tmp_path, config).state_folder == "/srv/state"
    plain = resolve_endpoint("plain", HostEntry(roles=("web",)), tmp_path, config)
    assert plain.jump is None and plain.use_agent and (plain.port, plain.host_key_alias) == (22, "plain")


def test_identity_file_of_the_hosts_file_is_the_only_one_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(socket, "getfqdn", lambda: "here")
    config = as_paramiko_reads(f"Host web\n IdentityFile {tmp_path}/theirs\n")
    (tmp_path / "theirs").write_text("")
    entry = HostEntry(roles=("web",), identity_file=str(tmp_path / "mine"))
    with pytest.raises(UsageError, match=r"host web: identity_file .*mine is not there"):
        resolve_endpoint("web", entry, tmp_path, config)
    (tmp_path / "mine").write_text("")
    end = resolve_endpoint("web", entry, tmp_path, config)
    assert end.identity_files == (str(tmp_path / "mine"),) and end.use_agent is False


def test_port_in_ssh_config_must_be_a_number(tmp_path):
    with pytest.raises(UsageError, match="host web: port 'ssh' is not a number"):
        resolve_endpoint("web", HostEntry(roles=("web",)), tmp_path, as_paramiko_reads("Host web\n Port ssh\n"))


def test_known_hosts_lines_apply_to_names_ports_patterns_and_hashes(tmp_path):
    path = tmp_path / "known"
    path.write_text(
        f"plain.org,10.0.0.1 {OURS}\n[port.org]:2222 {THEIRS}\n*.wild.org,!not.wild.org {OTHER}\nb?x {OTHER}\n"
        f"{HostKeys.hash_host('[hidden.org]:2222')} {OURS}\nplain.org ssh-ed25519 torn\n|1|bad|line {OURS}\n# no\n\nx\n"
    )

    def trusted(host: str, port: int = 22) -> list[str]:
        return [f"{key.get_name()} {key.get_base64()}" for key in trusted_keys([Path("/missing"), path], host, port)]

    assert trusted("plain.org") == trusted("PLAIN.org") == trusted("10.0.0.1") == [OURS]
    assert trusted("port.org", 2222) == [THEIRS] and trusted("hidden.org", 2222) == [OURS]
    assert trusted("a.wild.org") == trusted("box") == [OTHER]
    for name, port in (
        ("plain.org", 23),
        ("port.org", 22),
        ("not.wild.org", 22),
        ("plainxorg", 22),
        ("hidden.org", 22),
    ):
        assert trusted(name, port) == []
    assert (lookup_name("h", 22), lookup_name("h", 23)) == ("h", "[h]:23")


def test_first_known_hosts_file_counts_unless_any_revokes_its_key(tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_text(f"h {OURS}\n")
    second.write_text(f"h {THEIRS}\n@cert-authority ca {OTHER}\n@revoked r,ca {OURS}\n")
    assert [key.get_base64() for key in trusted_keys([first, second], "h", 22)] == [OURS.split()[1]]
    second.write_text(second.read_text() + f"@revoked h {OURS}\n")
    assert trusted_keys([first, second], "h", 22) == []


@pytest.mark.parametrize(
    ("host", "key", "status"),
    [("r", OURS, "revoked"), ("r", THEIRS, "unknown"), ("ca", THEIRS, "authority"), ("h", OURS, "unknown")],
)
def test_untrusted_key_is_revoked_of_an_authority_or_unknown(tmp_path, host, key, status):
    (tmp_path / "known").write_text(f"@revoked r {OURS}\n@cert-authority ca {OTHER}\n")
    end = resolve_endpoint(host, HostEntry(roles=("web",)), tmp_path / "known", as_paramiko_reads(""))
    assert untrusted_key_status(end, parse_line(f"x {key}").key) == status
