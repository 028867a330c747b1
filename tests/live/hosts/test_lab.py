"""The lab survives what happens to it: calls in any order, a reboot, a taken port, a stopped server."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from loadbook.cli.hosts import doctor
from loadbook.cli.hosts import lab as lab_command
from loadbook.core.errors import UnreachableError, UsageError
from loadbook.hosts import sshd
from loadbook.hosts.host import Job
from loadbook.hosts.inventory import read_hosts
from loadbook.hosts.jobs import LockRequest
from loadbook.hosts.lab import Lab, cpu_masks
from loadbook.hosts.remote import connect
from loopback_labs import processes_in
from waiting import PATIENCE_S, wait_until


@pytest.fixture
def own(tmp_path):
    lab = Lab(tmp_path / "lab", hosts={"driver": ("driver",), "web": ("web",)}, net_prefix="127.250.9")
    yield lab
    lab.down()


def test_lab_can_be_started_stopped_and_started_again(own):
    assert own.status() == []
    first = own.up()
    assert own.up() == first == own.status()
    assert [s.address for s in first] == ["127.250.9.1", "127.250.9.2"]
    hosts = read_hosts(own.hosts_file)
    assert hosts.with_role("web") == ["web"]
    for state in first:
        assert state.cpus is None or os.sched_getaffinity(state.pid) == set(state.cpus)
    host = connect(own.hosts_file, "web")
    host.start(Job("stays", (("sleep", "200"),), 300, ends_with_session=False))
    down = own.down()
    assert [s.pid for s in down] == [None, None]
    wait_until(lambda: not list(processes_in(own.folder)))  # the end of a broken line is seen at the next look
    with pytest.raises(UnreachableError, match="cannot connect"):
        host.run(["true"], timeout_s=PATIENCE_S)
    host.close()
    again = own.up()
    assert [(s.address, s.port) for s in again] == [(s.address, s.port) for s in first]
    assert own.down() == down


def test_lab_up_restarts_killed_and_stopped_servers_and_avoids_used_ports(own):
    first = own.up()
    os.kill(first[0].pid, signal.SIGKILL)
    os.kill(first[1].pid, signal.SIGSTOP)
    second = own.up()
    assert all(s.pid for s in second)
    assert {s.pid for s in first}.isdisjoint({s.pid for s in second})
    own.down()
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((first[0].address, first[0].port))
        taken.listen()
        third = own.up()
    assert third[0].port != first[0].port
    assert third[1].port == first[1].port


def test_sessions_in_the_lab_do_not_run_the_users_bashrc(tmp_path, monkeypatch):
    if Path(pwd.getpwuid(os.getuid()).pw_shell).name != "bash":
        pytest.skip("this user's login shell is not bash")
    template = sshd.CONFIG_TEMPLATE.replace("SHLVL=1", f"SHLVL=1 HOME={tmp_path}")
    assert template != sshd.CONFIG_TEMPLATE
    (tmp_path / ".bashrc").write_text("touch ~/was-read\n")
    for config, is_read in ((template, False), (template.replace("SHLVL=1 ", ""), True)):
        monkeypatch.setattr(sshd, "CONFIG_TEMPLATE", config)
        lab = Lab(tmp_path / "lab", hosts={"web": ("web",)}, net_prefix="127.250.7")
        try:
            lab.up()
            host = connect(lab.hosts_file, "web")
            assert host.run(["sh", "-c", "echo $HOME"], timeout_s=PATIENCE_S).stdout == f"{tmp_path}\n".encode()
            host.close()
        finally:
            lab.down()
        assert (tmp_path / "was-read").exists() == is_read


def test_lab_cpu_masks_are_disjoint(monkeypatch):
    def masks(cpus: set[int], *roles: str):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: cpus)
        return list(cpu_masks({str(k): (role,) for k, role in enumerate(roles)}).values())

    assert masks({0, 1}, "driver", "web") == [(0,), (1,)]
    assert masks({0, 1, 2, 3, 5}, "driver", "web") == [(0, 1), (2, 3, 5)]
    assert masks({4, 7}, "driver", "web", "driver") == [(4,), (7,), (4,)]
    assert masks({4, 7}, "driver", "web", "web") == [(4,), (7,), (7,)]
    assert masks({1, 2, 3, 4}, "driver", "web", "driver") == [(1,), (2,), (3, 4)]
    assert masks({0}, "driver", "web") == [None, None]


def test_lab_adds_needed_hosts_and_keeps_the_others(tmp_path):
    folder = tmp_path / "lab"

    def lab(roles: dict[str, int] | None = None, **needs: int) -> Lab:
        return replace(Lab.load(folder, roles=roles, min_hosts=needs), net_prefix="127.250.12")

    try:
        small = lab().up()
        grown = lab(web=2, balancer=1).up()
        assert [(s.alias, s.address) for s in grown[2:]] == [("web-2", "127.250.12.3"), ("balancer", "127.250.12.4")]
        assert [(s.address, s.port) for s in grown[:2]] == [(s.address, s.port) for s in small]
        assert lab(web=1).up() == grown
        less = lab({"web": 1}).up()
        assert [(s.alias, s.address) for s in less[1:]] == [("web", "127.250.12.2"), ("balancer", "127.250.12.4")]
    finally:
        lab().down()


def test_lab_hosts_in_use_are_neither_changed_nor_removed(own):
    first = own.up()
    host = connect(own.hosts_file, "web", "20200101-000000", lock_request=LockRequest("other", "20200101-000000"))
    everywhere = len(os.sched_getaffinity(0)) if first[0].cpus else 1
    for other in (replace(own, min_server_cpus=everywhere), replace(own, hosts={"driver": ("driver",)})):
        if other.hosts == own.hosts and everywhere < 2:
            continue  # one CPU: there are no masks that could change
        with pytest.raises(UsageError, match=r"host web of the lab is in use by .*, run 20200101-000000 of other"):
            other.up()
    assert own.status() == first and own.up() == first
    assert host.run(["true"], timeout_s=PATIENCE_S).rc == 0
    host.close()
    assert [s.alias for s in replace(own, hosts={"driver": ("driver",)}).up()] == ["driver"]


def test_lab_record_of_an_older_version_is_read(tmp_path):
    host = {"address": "127.250.13.2", "port": 22022, "service_port": 18080, "cpus": [1]}
    (tmp_path / "lab.json").write_text(json.dumps({"driver": host, "web": host, "driver-2": host}))
    lab = Lab.load(tmp_path)
    assert (lab.kind, lab.hosts["driver-2"]) == ("loopback", ("driver",))
    assert [(s.alias, s.address, s.cpus) for s in lab.status()][2:] == [("driver-2", "127.250.13.2", (1,))]


def test_loopback_lab_refuses_to_cut_links(own):
    own.up()
    with pytest.raises(UsageError, match="no links") as refused:
        own.cut_link("web", 1)
    assert "--kind netns" in refused.value.hint
    with pytest.raises(UsageError, match="no host 'webb'"):
        own.restore_link("webb")


def test_lab_commands_print_status_and_exit_codes(tmp_path, monkeypatch):
    (tmp_path / "studies").mkdir()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "studies" / "bad.toml").write_text("nonsense")
    monkeypatch.setenv("LOADBOOK_HOME", str(tmp_path))
    run = CliRunner().invoke
    assert run(lab_command, ["status"]).exit_code == 3
    try:
        assert run(lab_command, ["up"]).output.count("\tup, process ") == 2
        assert run(lab_command, ["status"]).exit_code == 0
        listed = json.loads(run(lab_command, ["status", "--json"]).stdout)
        assert [host["pid"] for host in listed] == [host.pid for host in Lab(tmp_path / ".cache/lab").status()]
        checks = json.loads(run(doctor, ["--json"]).stdout)
        assert {"driver", "web", "here"} <= {check["host"] for check in checks}
        well = run(doctor, [])
        assert well.exit_code == 0, well.output
        assert "host key trusted" in well.output
        assert "study bad" in well.output
        (tmp_path / ".cache/lab/known_hosts").write_text("")
        ill = run(doctor, [], env={"COLUMNS": "250"})
        assert ill.exit_code == 3
        assert "hosts trust" in ill.output
        os.kill(Lab(tmp_path / ".cache/lab").status()[0].pid, signal.SIGKILL)
        half = run(lab_command, ["status"])
        assert (half.exit_code, half.output.count("\tdown"), half.output.count("\tup, process ")) == (3, 1, 1)
        assert "next: loadbook lab up" in half.output
    finally:
        assert run(lab_command, ["down"]).output.count("\tdown") == 2
