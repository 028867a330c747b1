"""Whole runs against a host's own server: what is recorded, what a run finds and repairs, what is left: nothing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import exit_code
from dry_run_transcripts import run_held_to_dry_run
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.host import Host
from loadbook.hosts.remote import connect
from ports import held_port
from system_mode_projects import TREE, packaged_nginx, project, records, server, tree
from system_nginx import NEEDS_NGINX, OwnServer, left_by_a_crash, own_server
from waiting import PATIENCE_S, wait_until

pytestmark = NEEDS_NGINX


@pytest.fixture
def own(lab, tmp_path) -> Iterator[OwnServer]:
    with held_port() as port, own_server(lab, tmp_path, port) as server:
        yield server


def test_system_mode_run_records_the_hosts_own_server(own, tmp_path):
    layout = project(tmp_path, "own-nginx", "workers", [1, 2])
    notes = []
    run = run_study(layout, RunRequest("own", own.hosts_file), on_event=lambda event: notes.append(event.message))
    own.must_be_as_before()
    done = records(layout, run)
    assert {name: record["status"] for name, record in done.items()} == {"one": "ok", "other": "ok"}
    for record in done.values():
        (service,) = record["services"]
        assert service["mode"] == "system"
        assert service["live"] is True
        assert record["changes"]["web"]["own-nginx"] == "reloaded"
        assert record["changes"]["web"][f"{own.tree}/nginx.conf"].startswith("sha256 ")
    assert len(done["other"]["services"][0]["pids"]) == 3
    run_held_to_dry_run(layout, "own", layout.run("own", run))


@pytest.mark.fault(35)
def test_system_mode_trial_with_failed_bind_is_invalid(own, tmp_path, record_property):
    with socket.create_server((own.host.address, 0)) as taken:
        layout = project(tmp_path, "own-nginx", "listen", ["unset", f"{own.host.address}:{taken.getsockname()[1]}"])
        done = records(layout, run_study(layout, RunRequest("own", own.hosts_file)))
    own.must_be_as_before()
    assert done["one"]["status"] == "ok"
    assert done["other"]["status"] == "invalid"
    assert "does not run this treatment's configuration" in done["other"]["reason"]
    record_property("seen", "trial invalid, the next one ok, the tree as before")


@pytest.mark.fault(36)
def test_next_run_restores_leftover_changes_and_reports(own, tmp_path, record_property):
    left_by_a_crash(own)
    layout, notes = project(tmp_path, "own-nginx", "workers", [1, 2]), []
    run_study(
        layout, RunRequest("own", own.hosts_file, subset="all"), on_event=lambda event: notes.append(event.message)
    )
    assert f"host web: put back what was left changed: {own.tree} (nginx runs with its own files again)" in notes
    own.must_be_as_before()
    record_property("seen", "the next run of anything finds it, repairs it, says it")


@pytest.mark.fault(37)
def test_system_mode_file_edited_by_somebody_else_stops_the_run(own, tmp_path, monkeypatch, capsys, record_property):
    project(tmp_path, "own-nginx", "workers", [1, 2])
    monkeypatch.chdir(tmp_path)
    script = (
        f"while ! grep -q loadbook {own.tree}/nginx.conf; do sleep 0.05; done; echo '# theirs' >>{own.tree}/nginx.conf"
    )
    with subprocess.Popen(["timeout", "30", "sh", "-c", script]) as editor:
        monkeypatch.setenv("LOADBOOK_HOME", str(tmp_path))
        code = exit_code(monkeypatch, "run", "own", "--hosts", str(own.hosts_file))
        editor.wait(30)
    printed = capsys.readouterr().err
    assert code == 3
    assert "host web: is not as it was found:" in printed
    assert "edited by somebody else meanwhile" in printed
    assert (own.tree / "nginx.conf").read_text().endswith("# theirs\n")
    assert exit_code(monkeypatch, "restore", "web", "--hosts", str(own.hosts_file)) == 3
    kept = next((own.state / "kept").iterdir())
    shutil.copy2(kept / "old/nginx.conf", own.tree / "nginx.conf")
    assert exit_code(monkeypatch, "restore", "web", "--hosts", str(own.hosts_file)) == 0
    own.must_be_as_before()
    record_property("seen", "the run stops with exit 3, the edit and its diff are there; restore after it is settled")


@pytest.fixture
def distribution(spaces) -> Iterator[Host]:
    with packaged_nginx(spaces) as host:
        yield host


FRONTEND = """
frontend own
    bind *:80
    http-request return status 200 content-type text/plain string "its own"
"""
START = {
    "httpd": ("/etc/apache2", "apachectl start", "apachectl stop", "/run/apache2/apache2.pid"),
    "haproxy": (
        "/etc/haproxy",
        f"mkdir -p /run/haproxy && printf '%s' '{FRONTEND}' >>/etc/haproxy/haproxy.cfg && "
        "haproxy -W -D -f /etc/haproxy/haproxy.cfg -p /run/haproxy.pid",
        "kill $(cat /run/haproxy.pid)",
        "/run/haproxy.pid",
    ),
}
IN_FRONT = """
[roles.balancer]
backends = "web"
service = "haproxy"
mode = "system"
"""


@pytest.mark.root
@pytest.mark.parametrize("service", ["httpd", "haproxy"])
def test_system_mode_leaves_other_packaged_servers_unchanged(spaces, tmp_path, service):
    folder, start, stop, pid_file = START[service]
    if shutil.which(start.split()[0]) is None or not Path(folder).is_dir():
        pytest.skip(f"needs {service}")
    alias = "balancer" if service == "haproxy" else "web"
    if service == "httpd":
        layout, name = project(tmp_path, "httpd", "keepalive", ["on", "off"]), "httpd"
    else:
        layout, name = project(tmp_path, "nginx", "sendfile", ["off", "on"]), "haproxy"
        study = layout.studies / "own.toml"
        text = study.read_text().replace('mode = "system"\n', "").replace("[factors]", f"{IN_FRONT}\n[factors]")
        study.write_text(
            text.replace('tool = "wrk"\npath = "/.loadbook/config-id"', 'tool = "wrk"\ntarget = "balancer"')
        )
    host = connect(spaces.hosts_file, alias, "distribution")
    host.script(start, timeout_s=20, check=True)
    try:
        wait_until(lambda: host.exists(pid_file))
        seen = TREE.replace("/etc/nginx", folder)
        before, page = host.script(seen, timeout_s=PATIENCE_S).stdout, server(host)
        done = records(layout, run_study(layout, RunRequest("own", spaces.hosts_file)))
        assert {name: record["status"] for name, record in done.items()} == {"one": "ok", "other": "ok"}, done
        for record in done.values():
            (own,) = [one for one in record["services"] if one["service"] == name]
            assert own["mode"] == "system"
            assert own["live"] is True
            assert len(own["pids"]) > 1
        assert host.script(seen, timeout_s=PATIENCE_S).stdout == before
        assert server(host) == page
    finally:
        host.script(stop, timeout_s=20)
        host.close()


@pytest.mark.root
@pytest.mark.fault(36)
def test_system_mode_killed_run_leaves_the_packaged_nginx_unchanged(spaces, distribution, tmp_path, record_property):
    before, page = tree(distribution), server(distribution)
    project(tmp_path, "nginx", "sendfile", ["off", "on"], blocks=10)
    script = "import sys; from loadbook.cli import main; main()"
    env = {**os.environ, "LOADBOOK_HOME": str(tmp_path)}
    changed, delays_s = 0, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    for number, delay_s in enumerate(delays_s):
        words = ["run", "own", "--hosts", str(spaces.hosts_file), *(["--new"] if not number else [])]
        argv = [sys.executable, "-c", script, *words]
        with subprocess.Popen(argv, cwd=tmp_path, env=env, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as run:
            try:
                wait_until(lambda: run.poll() is not None or tree(distribution) != before)
                assert run.poll() is None
                time.sleep(delay_s)
            finally:
                run.kill()
        changed += tree(distribution) != before
        wait_until(lambda: tree(distribution) == before)
        wait_until(lambda: server(distribution) == page)
    assert changed
    record_property("seen", f"kill -9 at {len(delays_s)} instants, {changed} with files replaced: byte-identical")
