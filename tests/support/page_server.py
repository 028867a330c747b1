"""A real nginx of one page, and one real run of a load generator against it, read by its parser."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from loadbook.hosts.shell import search_path
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target, ToolOutput
from ports import held_port
from tls_certificate import certificate
from tool_captures import check_sane, values
from waiting import PATIENCE_S, wait_until

CONF = """
daemon off; worker_processes 1; pid nginx.pid; error_log error.log;
events {{ }}
http {{
  access_log off; keepalive_requests 1000000;
  client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;
  server {{
    listen 127.0.0.1:{port};
    location / {{ return 200 "12345"; }}
    location /seen {{ if ($http_x_asked = 'a "\\\\b" c;d') {{ return 204; }} return 400; }}
    location /unlike {{ return 404; }}
  }}
  server {{
    listen 127.0.0.1:{tls_port} ssl; ssl_certificate both.pem; ssl_certificate_key both.pem;
    location / {{ return 200 "12345"; }}
  }}
}}
"""


class PageServer(NamedTuple):
    """The addresses of one page, plain and with TLS."""

    plain: Target
    secure: Target


@contextmanager
def page_server(folder: Path) -> Iterator[PageServer]:
    """Run nginx in a folder while the block runs."""
    binary = shutil.which("nginx", path=search_path())
    assert binary, "nginx is missing: apt-get install nginx-light"
    certificate(folder)
    with held_port() as port, held_port() as tls_port:
        (folder / "nginx.conf").write_text(CONF.format(port=port, tls_port=tls_port))
        server = subprocess.Popen([binary, "-p", f"{folder}/", "-c", "nginx.conf"], stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: is_open(port) and is_open(tls_port))
            yield PageServer(Target("127.0.0.1", port), Target("127.0.0.1", tls_port, "https"))
        finally:
            server.terminate()
            server.wait(PATIENCE_S)


def is_open(port: int) -> bool:
    """Tell whether something listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def measured(target: Target, folder: Path, workload: Workload, duration_s: float = 1.0) -> dict[tuple[str, str], float]:
    """Return what one real run of the workload gave.

    A generator that makes no request gets twice the time: on a busy machine its users may be late.
    """
    tool = base.load_tool(workload.tool)
    own = os.environ | {"PATH": search_path()}
    for length_s in (duration_s * 2**more for more in range(5)):
        for name, data in tool.extra_files(workload).items():
            (folder / name).write_bytes(data)
        argv = tool.command(workload, target, length_s)
        done = subprocess.run(argv, cwd=folder, capture_output=True, timeout=PATIENCE_S, env=own)
        files = {name: (folder / name).read_bytes() for name in tool.expected_files(workload)}
        parsed = tool.parse(ToolOutput(done.stdout, done.stderr, done.returncode, tuple(argv), files))
        check_sane(parsed)
        got = values(parsed)
        if got.get(("requests", "count"), 0) or got.get(("errors", "count"), 0):
            break
    return got
