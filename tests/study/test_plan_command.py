"""`loadbook plan` checks a hosts file that is given."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from loadbook.cli import run as run_commands
from loadbook.core.errors import PreflightError


def test_plan_refuses_a_hosts_file_without_a_role_of_the_study(tmp_path) -> None:
    hosts = tmp_path / "hosts.toml"
    hosts.write_text('[hosts.a]\nroles = ["driver"]\naddress = "192.0.2.1"\n')
    with pytest.raises(PreflightError, match="no host has the role 'web'"):
        CliRunner().invoke(run_commands.plan, ["nginx-directives", "--hosts", str(hosts)], catch_exceptions=False)
