"""The hosts file: every mistake is named, and what is left out has a default that two aliases do not share."""

from __future__ import annotations

import pytest

from loadbook.core.errors import StudyError
from loadbook.hosts.inventory import HostEntry, read_hosts
from loadbook.hosts.keys import read_user_config, resolve_endpoint


@pytest.mark.fault(43)
def test_ssh_config_match_exec_never_runs_text_of_the_hosts_file(tmp_path, monkeypatch):
    """A name with a command in it would run here: paramiko puts it into the line of `Match exec`."""
    (tmp_path / "nothing").touch()
    monkeypatch.setattr("sys.stdin", (tmp_path / "nothing").open())
    (tmp_path / "config").write_text(f'Match exec "test %h = x || touch {tmp_path}/seen"\n  User me\n')
    resolve_endpoint("web1", HostEntry(roles=("web",)), tmp_path / "known", read_user_config(tmp_path / "config"))
    assert (tmp_path / "seen").exists()  # it is asked with the names that are allowed
    file = tmp_path / "hosts.toml"
    file.write_text(f'[hosts.web]\nroles = ["web"]\nssh = "$(touch {tmp_path}/PWN)"\n')
    with pytest.raises(StudyError, match=r"hosts\.web\.ssh: must be a host name"):
        read_hosts(file)
    assert not (tmp_path / "PWN").exists()
