"""Warnings in the logs of running servers: none of a usual configuration, all of one that is not in force."""

from __future__ import annotations

import re
import resource

import pytest

from loadbook.services.instance import LaunchOptions
from local_host import LocalHost
from ordinary_user import OrdinaryUsersHost
from running_services import page, running
from waiting import PATIENCE_S, wait_until


@pytest.mark.parametrize("service", ["nginx", "haproxy", "httpd", "redis"])
def test_usual_configuration_has_no_warnings(service, here: LocalHost, free_ports):
    with running(here, "nginx", free_ports[1]) as node:
        behind = [node] if service == "haproxy" else []
        with running(here, service, free_ports[0], *behind) as server:
            assert service == "redis" or page(here, server)
            assert server.log_warnings(server.log()) == []


def test_messages_of_nginx_to_an_ordinary_user_are_harmless(tmp_path, free_ports):
    host = OrdinaryUsersHost(tmp_path / "work")
    try:
        with running(host, "nginx", free_ports[0]) as web:
            reported = host.run(web.rendered.commands["check"], timeout_s=PATIENCE_S).stderr
        assert b"[warn]" in reported and web.log_warnings(reported) == []
    finally:
        host.close()


def test_refused_limit_of_open_files_is_a_warning_of_nginx(here: LocalHost, tmp_path, free_ports):
    with running(here, "nginx", free_ports[0], worker_processes=2) as web:
        text = web.rendered.files["nginx.conf"].decode()
    limit = 2_000_000_000  # above fs.nr_open, which root may not exceed either
    own = f"worker_rlimit_nofile {limit};\n{text}".encode()
    with running(here, "nginx", free_ports[0], main=own) as web:
        wait_until(lambda: b"setrlimit" in web.log())
        (line,) = web.log_warnings(web.log())
    assert line.startswith(f"[alert] setrlimit(RLIMIT_NOFILE, {limit}) failed (1: Operation not permitted)")


def test_unreachable_backend_is_a_warning_of_haproxy(here: LocalHost, free_ports):
    with (
        running(here, "nginx", free_ports[1]) as node,
        running(here, "haproxy", free_ports[0], node, check="tcp") as lb,
    ):
        node.stop()
        wait_until(lambda: b"DOWN" in lb.log())
        assert any("[WARNING]" in line and "is DOWN" in line for line in lb.log_warnings(lb.log()))


def test_reduced_number_of_workers_is_a_warning_of_httpd(here: LocalHost, free_ports):
    with running(here, "httpd", free_ports[0], server_limit=2, max_request_workers=4000) as web:
        lines = web.log_warnings(web.log())
    assert any("MaxRequestWorkers of 4000" in line for line in lines), lines


def test_check_of_the_configuration_warns_before_the_start(here: LocalHost, free_ports):
    with running(here, "httpd", free_ports[0], max_request_workers=1000) as web:
        (line,) = web.check_warnings
        assert web.log_warnings(b"") == [line]
    assert "MaxRequestWorkers of 1000 would require 40 servers" in line and "decreasing to 400" in line


def test_reduced_number_of_clients_is_a_warning_of_redis(here: LocalHost, free_ports):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, limit[0]), limit[1]))
    try:
        with running(here, "redis", free_ports[0], maxclients=5_000_000) as store:
            (line,) = store.log_warnings(store.log())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert "maxclients has been reduced to" in line


def test_warnings_that_a_file_keeps_out_of_the_log_are_read_before_the_run(here: LocalHost, free_ports):
    with running(here, "nginx", free_ports[0]) as web:
        text = web.rendered.files["nginx.conf"].decode()
    quiet = re.sub(r"error_log \S+ warn;", "error_log stderr;", text)
    own = re.sub(r"worker_connections \d+;|events \{", lambda m: "events { worker_connections 1000000;", quiet, count=1)
    with running(here, "nginx", free_ports[0], main=own.encode()) as web:
        assert web.log_warnings(web.log()) == []
        web.launch = LaunchOptions(nofile=1000)
        (line,) = web.read_warnings()
    assert line == "[warn] 1000000 worker_connections exceed open file resource limit: 1000"


def test_length_of_the_accept_queue_is_read_in_the_files(here: LocalHost, free_ports):
    with running(here, "httpd", free_ports[0], listen_backlog=9000) as web:
        assert web.backlog == 9000
        text = web.rendered.files["httpd.conf"].decode()
        text = text.replace(web.rendered.context.dir, "{{ dir }}")
    own = re.sub(r"(?m)^ListenBacklog.*$", "# ListenBacklog 9000\nlistenbacklog 8000", text)
    with running(here, "httpd", free_ports[0], main=own.encode()) as web:
        assert web.backlog == 8000
    with running(here, "httpd", free_ports[0]) as web:
        assert web.backlog is None
