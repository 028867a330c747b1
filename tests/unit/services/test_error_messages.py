"""Errors in the output of servers: which lines of it a message shows, and the user's next step."""

from __future__ import annotations

import pytest

from loadbook.services import load_service

DLOPEN = (
    "nginx: [alert] could not open error log file: open() failed (13: Permission denied)\n"
    '2026/11/28 10:33:37 [emerg] 25333#25333: dlopen() "/w/modules/x.so" failed (no such file) in /w/nginx.conf:1\n'
    "nginx: configuration file /w/nginx.conf test failed\n"
)
HAPROXY = """\
[NOTICE]   (7) : path to executable is /usr/sbin/haproxy
[ALERT]    (7) : config : parsing [haproxy.cfg:3]: unknown keyword 'x' in 'global' section
[ALERT]    (7) : config : parsing [haproxy.cfg:3]: unknown keyword 'x' in 'global' section
"""


def test_errors_are_shown_once_without_time_and_process_id():
    nginx, haproxy = load_service("nginx").errors, load_service("haproxy").errors
    assert nginx and haproxy
    assert nginx.errors(DLOPEN) == ['[emerg] dlopen() "/w/modules/x.so" failed (no such file) in /w/nginx.conf:1']
    assert nginx.errors('nginx: [emerg] unknown directive "x"') == ['[emerg] unknown directive "x"']
    assert haproxy.errors(HAPROXY) == [
        "[ALERT] config : parsing [haproxy.cfg:3]: unknown keyword 'x' in 'global' section"
    ]


@pytest.mark.parametrize(
    "output, remedy",
    [
        (DLOPEN, "give the module an absolute path"),
        ('[emerg] unknown directive "echo" in /w/nginx.conf:9', "load_module /usr/lib/nginx/modules/NAME.so;"),
        ('[emerg] open() "/w/mime.types" failed (2: No such file or directory)', "include /etc/nginx/mime.types;"),
        ('[emerg] cannot load certificate key "/k": BIO_new_file() failed (Permission denied)', "howto-config.md"),
    ],
)
def test_nginx_errors_of_own_files_have_a_remedy(output, remedy):
    messages = load_service("nginx").errors
    assert messages
    assert remedy in (messages.hint(output) or "")


def test_warnings_of_a_log_are_shown_once_without_times_processes_clients_and_harmless_ones():
    log = (
        'nginx: [alert] could not open error log file: open() "/var/log/error.log" failed (13: ...)\n'
        '2026/11/28 10:33:37 [warn] 7#7: the "user" directive makes sense only if the master process runs with ...\n'
        "2026/11/28 10:33:37 [alert] 8#8: setrlimit(RLIMIT_NOFILE, 100000) failed (1: Operation not permitted)\n"
        "2026/11/28 10:33:38 [alert] 9#9: setrlimit(RLIMIT_NOFILE, 100000) failed (1: Operation not permitted)\n"
        "39 [warn] 9#9: *4 a client request body is buffered to a temporary file temp/0000000001, client: ::1\n"
        '2026/11/28 10:33:39 [warn] 9#9: *5 delaying request, excess: 0.9, by zone "all", client: ::1\n'
        "2026/11/28 10:33:39 [notice] 9#9: start worker processes\n"
    )
    messages = load_service("nginx").errors
    assert messages and messages.log_warnings(log) == [
        "[alert] setrlimit(RLIMIT_NOFILE, 100000) failed (1: Operation not permitted)",
        "[warn] a client request body is buffered to a temporary file",
    ]


def test_warnings_of_haproxy_and_httpd_are_found():
    haproxy, httpd = load_service("haproxy").errors, load_service("httpd").errors
    assert haproxy and httpd
    assert haproxy.log_warnings("[WARNING]  (7) : Server nodes/web1 is DOWN, reason: Layer4\n[NOTICE]   (7) : x") == [
        "[WARNING] Server nodes/web1 is DOWN, reason: Layer4"
    ]
    log = (
        "AH00180: WARNING: MaxRequestWorkers of 800 exceeds ServerLimit value of 256 servers\n"
        "[Sat Nov 28 10:00:00.1 2026] [core:warn] [pid 7:tid 8] AH00098: pid file overwritten\n"
        "[Sat Nov 28 10:00:00.1 2026] [mpm_event:notice] [pid 7:tid 8] AH00489: configured\n"
    )
    assert httpd.log_warnings(log) == [
        "AH00180: WARNING: MaxRequestWorkers of 800 exceeds ServerLimit value of 256 servers",
        "[core:warn] AH00098: pid file overwritten",
    ]


def test_usual_failure_is_the_most_frequent_reason_of_error_responses():
    nginx, httpd = load_service("nginx").errors, load_service("httpd").errors
    assert nginx and httpd
    limited = '39 [error] 9#9: *{} limiting requests, excess: 5.{} by zone "one", client: ::1, server: , request: "/"\n'
    others = (
        "39 [alert] 9#9: setrlimit(RLIMIT_NOFILE, 100000) failed (1: Operation not permitted)\n"
        '39 [warn] 9#9: *4 delaying request, excess: 0.9, by zone "all", client: ::1\n'
        "39 [warn] 9#9: *4 a client request body is buffered to a temporary file temp/0000000001, client: ::1\n"
    )
    log = 3 * others + limited.format(5, 840) + limited.format(6, 122)
    assert nginx.usual_failure(log) == 'limiting requests by zone "one"'
    assert nginx.usual_failure("39 [alert] 9#9: 768 worker_connections are not enough\n") == (
        "768 worker_connections are not enough"
    )
    assert nginx.usual_failure(others) is None
    denied = "[Sat Nov 28 10:00:00.1 2026] [core:error] [pid 7:tid 8] [client 127.0.0.1:999] AH00035: access denied\n"
    assert httpd.usual_failure(denied) == "AH00035: access denied"
