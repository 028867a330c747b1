"""Whole runs against a host's own server: what is recorded, what a run finds and repairs, what is left: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import exit_code
from loadbook.core.errors import PreflightError
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.host import Host
from ports import held_port
from system_mode_projects import packaged_nginx, project, records, server, tree
from system_nginx import NEEDS_NGINX, OwnServer, left_by_a_crash, own_server

pytestmark = NEEDS_NGINX


@pytest.fixture
def own(lab, tmp_path) -> Iterator[OwnServer]:
    with held_port() as port, own_server(lab, tmp_path, port) as server:
        yield server


def test_system_mode_without_permission_is_refused(lab, own, tmp_path):
    layout = project(tmp_path, "own-nginx", "workers", [1, 2])
    with pytest.raises(
        PreflightError, match=r"host web: service own-nginx: needs system, which the hosts file does not"
    ):
        run_study(layout, RunRequest("own", lab.hosts_file))
    own.must_be_as_before()


@pytest.mark.fault(36)
def test_restore_command_restores_files_and_reports(own, monkeypatch, capsys):
    left_by_a_crash(own)
    command = ("restore", "--hosts", str(own.hosts_file))
    assert exit_code(monkeypatch, *command) == 0
    printed = f"web\tput back {own.tree} (nginx runs with its own files again)\n"
    assert capsys.readouterr().out == f"driver\tnothing was left\n{printed}"
    own.must_be_as_before()
    assert exit_code(monkeypatch, *command, "web") == 0
    assert capsys.readouterr().out == "web\tnothing was left\n"
    assert exit_code(monkeypatch, *command, "elsewhere") == 2


@pytest.fixture
def distribution(spaces) -> Iterator[Host]:
    with packaged_nginx(spaces) as host:
        yield host


@pytest.mark.root
@pytest.mark.fault(36)
def test_system_mode_leaves_the_packaged_nginx_unchanged(spaces, distribution, tmp_path, record_property):
    before, page = tree(distribution), server(distribution)
    layout = project(tmp_path, "nginx", "sendfile", ["off", "on"])
    done = records(layout, run_study(layout, RunRequest("own", spaces.hosts_file)))
    assert {name: record["status"] for name, record in done.items()} == {"one": "ok", "other": "ok"}, done
    assert list(done["one"]["changes"]["web"]) == ["/etc/nginx/loadbook/index.html", "/etc/nginx/nginx.conf", "nginx"]
    assert tree(distribution) == before
    assert server(distribution) == page
    assert not Path("/etc/nginx/loadbook").exists()
    record_property("seen", "/etc/nginx byte-identical, its page served again")
