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
