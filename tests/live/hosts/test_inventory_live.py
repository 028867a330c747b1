"""The hosts file: every mistake is named, and what is left out has a default that two aliases do not share."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadbook.core.errors import UsageError
from loadbook.hosts.remote import connect


def test_error_names_a_missing_identity_file(lab, tmp_path):
    file, known = tmp_path / "hosts.toml", Path(lab.hosts_file).with_name("known_hosts")
    file.write_text(lab.hosts_file.read_text().replace("user_key", "no_such_key"))
    (tmp_path / "known_hosts").write_bytes(known.read_bytes())
    with pytest.raises(UsageError, match="no_such_key is not there"):
        connect(file, "web")
