"""Host keys are proven before any command runs; only `hosts trust` accepts one."""

from __future__ import annotations

import subprocess
from pathlib import Path

from paramiko import HostKeys

from loadbook.hosts import keys as known_hosts


def make_key(folder: Path, name: str, kind: str = "ed25519") -> str:
    """Make a key pair; return "type blob"."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(folder / name)], check=True)
    return " ".join((folder / f"{name}.pub").read_text().split()[:2])


def test_known_hosts_files_are_read_line_by_line(tmp_path):
    a, b, c = (make_key(tmp_path, name) for name in "abc")
    hashed = HostKeys.hash_host("[hidden.org]:2222")
    path = tmp_path / "known"
    path.write_bytes(
        f"plain.org,10.0.0.1 {a}\n[port.org]:2222 {b}\n*.wild.org,!not.wild.org {c}\n{hashed} {a}\n"
        f"plain.org ssh-ed25519 torn\n@cert-authority *.org {b}\n|1|bad|line {a}\n# comment\n\nword\n".encode()
        + b"\xff\xfe\n"
    )

    def trusted(host: str, port: int = 22) -> list[str]:
        keys = known_hosts.trusted_keys([tmp_path / "missing", path], host, port)
        return [f"{key.get_name()} {key.get_base64()}" for key in keys]

    assert trusted("plain.org") == trusted("PLAIN.org") == trusted("10.0.0.1") == [a]
    assert trusted("plain.org", 23) == []
    assert trusted("port.org", 2222) == [b]
    assert trusted("a.wild.org") == [c]
    assert trusted("not.wild.org") == []
    assert trusted("hidden.org", 2222) == [a]
    assert trusted("other.org") == []


def test_own_known_hosts_file_takes_precedence(tmp_path):
    ours, theirs = make_key(tmp_path, "ours"), make_key(tmp_path, "theirs")
    (tmp_path / "1").write_text(f"h {ours}\n")
    (tmp_path / "2").write_text(f"h {theirs}\n")
    keys = known_hosts.trusted_keys([tmp_path / "1", tmp_path / "2"], "h", 22)
    assert [f"{k.get_name()} {k.get_base64()}" for k in keys] == [ours]
