"""Apache httpd by processes and by threads, as whoever runs the tests; real processes."""

import os
import stat
import time
from pathlib import Path

import pytest

from local_host import LocalHost
from running_services import page, running
from waiting import PATIENCE_S, wait_until


@pytest.mark.parametrize("mpm", ["prefork", "event"])
def test_httpd_starts_proves_its_configuration_and_cleans_up(here: LocalHost, free_ports: list[int], mpm: str) -> None:
    with running(here, "httpd", free_ports[0], mpm=mpm, page_bytes=2048, start_servers=2) as web:
        proof = web.prove(here)
        assert proof.live, proof.evidence
        assert len(proof.pids) >= 2
        assert page(here, web) == (b"hello, world\n" * 200)[:2048]
        # a worker counts a request after its response has been sent
        wait_until(lambda: web.counters(here)["requests"] >= 3)
        assert b"DocumentRoot" in web.effective_config
    assert not any(Path(f"/proc/{pid}").exists() for pid in proof.pids)
    assert not here.exists(web.rendered.context.dir)


def test_httpd_pages_are_readable_in_a_private_folder(here: LocalHost, free_ports: list[int]) -> None:
    """As root its children are another user, who may not enter the work folder."""
    Path(here.workdir).mkdir(mode=0o700)
    with running(here, "httpd", free_ports[0], node="web7", page="node", page_bytes=40) as web:
        assert page(here, web).startswith(b"node web7\nhello") and len(page(here, web)) == 40
        assert stat.S_IMODE(Path(here.workdir).stat().st_mode) == 0o700
        owners = {Path(f"/proc/{pid}").stat().st_uid for pid in web.pids()}
        assert owners == ({0, 65534} if os.getuid() == 0 else {os.getuid()})


@pytest.mark.parametrize("keepalive, kept", [("on", None), ("off", "close")])
def test_httpd_keepalive_follows_its_variable(
    here: LocalHost, free_ports: list[int], keepalive: str, kept: str | None
) -> None:
    with running(here, "httpd", free_ports[0], keepalive=keepalive, access_log="on", counters="off") as web:
        answer = here.http_get(web.address, web.port, "/index.html", timeout_s=PATIENCE_S)
        assert answer.headers.get("connection") == kept
        assert web.counters(here) == {}
        log = Path(web.rendered.context.dir, "access.log")
        for _ in range(100):  # it is written when the answer is out already
            if "GET /index.html" in log.read_text():
                break
            time.sleep(0.05)
        assert "GET /index.html" in log.read_text()
