"""`loadbook doctor STUDY`: what one study lacks on given hosts, by their file and by asking them."""

from __future__ import annotations

import json
import re
import socket

import pytest

from command_line import exit_code
from loadbook.hosts.jobs import LockRequest
from loadbook.hosts.remote import connect
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

OWN = """
include = "aa.toml"
name = "own"
question = "Is the file faster than itself?"

[roles.web]
config = "own.conf"
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
    code, printed = doctor("aa")
    assert code == 0
    assert "all 2 treatments have their hosts" in printed
    assert "/wrk" in printed
    assert "httperf" not in printed
    assert "delay" not in printed


def test_doctor_names_missing_permissions_and_the_delay_method(doctor):
    code, printed = doctor("delayed")
    assert code == 3
    assert "needs sysctl" in printed
    assert "made in userspace by delay-line" in printed
    assert "nofile = 9999999 is refused" in printed


def test_doctor_names_a_role_without_hosts(doctor):
    code, printed = doctor("aa", ('roles = ["web"]', 'roles = ["app"]'))
    assert code == 3
    assert "no host has the role 'web'" in printed


def test_doctor_checks_the_monitors_of_the_study(doctor):
    code, printed = doctor("watched", ('roles = ["web"]', 'roles = ["web"]\nexporter_port = 0\nmunin_port = 1'))
    assert code == 3
    assert "source munin does not answer" in printed and "apt-get install munin-node" in printed
    assert "the hosts file says that it has none" in printed


def test_doctor_checks_configurations_and_ports_as_a_run_does_and_leaves_nothing(doctor, lab):
    before = files_of(lab, "web")
    code, printed = doctor("aa")
    assert code == 0
    assert "ok web configuration of web nginx accepts it in every treatment" in printed
    assert re.search(r"(ok|\?) web other programs (no other program uses it now|other programs use )", printed)
    assert "ok web room for the run disk, and ports that are free: 18080" in printed
    assert files_of(lab, "web") == before


def test_doctor_finds_a_configuration_that_nginx_refuses_and_names_the_cure(doctor, tmp_path, monkeypatch, lab, capsys):
    studies = tmp_path / "home" / "studies"
    (studies / "own.toml").write_text(OWN)
    (studies / "own.conf").write_text("load_module modules/ngx_none.so;\nevents {}\n")
    code, printed = doctor("own")
    assert code == 3
    assert printed.count("dlopen()") == 1 and printed.count("ngx_none.so") == 2, "the error once, with its two paths"
    assert "MISSING web configuration of web treatments baseline, again, role web: host web: nginx refuses" in printed
    assert "give the module an absolute path" in printed
    assert exit_code(monkeypatch, "run", "own", "--hosts", str(lab.hosts_file)) == 3
    refusal = capsys.readouterr().err
    # warnings are of other tests, which run doctor at the same time
    said = "".join(line for line in refusal.splitlines() if not line.startswith("warning: "))
    assert refusal.count("dlopen()") == 1 and "doctor" not in said
    assert "next: remove include /etc/nginx/modules-enabled/*.conf; from the file, or give" in refusal, refusal


def test_doctor_finds_a_port_in_use(doctor, lab):
    web = json.loads((lab.folder / "lab.json").read_text())["hosts"]["web"]
    with socket.create_server((web["address"], web["service_port"])):
        code, printed = doctor("aa")
    assert code == 3
    assert f"MISSING web room for the run host web: port {web['service_port']} is in use" in printed


def test_doctor_takes_no_ports_on_a_host_that_a_run_uses(doctor, lab):
    run = connect(lab.hosts_file, "web", "other", lock_request=LockRequest("study", "other"))
    try:
        code, printed = doctor("aa")
    finally:
        run.close()
    assert code == 0
    assert "ports and configurations were not checked" in printed and "ask again after its end" in printed
    assert "nginx accepts it" not in printed and "for all treatments at once" not in printed


def files_of(lab, alias):
    """Return the files in the work folder of a lab's host, without those of sessions."""
    host = connect(lab.hosts_file, alias, "look")
    try:
        return host.run(["find", "jobs", "services", "programs"], timeout_s=20).text.splitlines()
    finally:
        host.close()
