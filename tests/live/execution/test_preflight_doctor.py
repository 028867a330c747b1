"""`loadbook doctor STUDY`: what one study lacks on given hosts, by their file and by asking them."""

from __future__ import annotations

import pytest

from command_line import exit_code
from recorded_run import with_studies

DELAYED = """
include = "aa.toml"
name = "delayed"
question = "What does a delay cost?"

[roles.driver]
delay_ms = 20

[roles.web]
sysctls = { "net.core.somaxconn" = 128 }
nofile = 9_999_999
"""

WATCHED = """
include = "aa.toml"
name = "watched"

[monitors]
sources = ["sampler", "munin", "node-exporter"]
"""


@pytest.fixture
def doctor(lab, tmp_path, monkeypatch, capsys):
    layout = with_studies(tmp_path / "home")
    (layout.studies / "delayed.toml").write_text(DELAYED)
    (layout.studies / "watched.toml").write_text(WATCHED)
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    monkeypatch.setenv("COLUMNS", "300")

    def call(study, *changes):
        text = lab.hosts_file.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        hosts = tmp_path / "hosts.toml"
        hosts.write_text(text)
        (tmp_path / "known_hosts").write_bytes(lab.hosts_file.with_name("known_hosts").read_bytes())
        code = exit_code(monkeypatch, "doctor", study, "--hosts", str(hosts))
        return code, " ".join(capsys.readouterr().out.split())

    return call


def test_doctor_checks_only_what_the_study_needs(doctor):
    code, said = doctor("aa")
    assert code == 0
    assert "all 2 treatments have their hosts" in said
    assert "/wrk" in said
    assert "httperf" not in said
    assert "delay" not in said


def test_doctor_names_missing_permissions_and_the_delay_method(doctor):
    code, said = doctor("delayed")
    assert code == 3
    assert "needs sysctl" in said
    assert "made in userspace by delay-line" in said
    assert "nofile = 9999999 is refused" in said


def test_doctor_names_a_role_without_hosts(doctor):
    code, said = doctor("aa", ('roles = ["web"]', 'roles = ["app"]'))
    assert code == 3
    assert "no host has the role 'web'" in said


def test_doctor_checks_the_monitors_of_the_study(doctor):
    code, said = doctor("watched", ('roles = ["web"]', 'roles = ["web"]\nexporter_port = 0\nmunin_port = 1'))
    assert code == 3
    assert "source munin does not answer" in said and "apt-get install munin-node" in said
    assert "the hosts file says that it has none" in said
