"""docs/services.md: its tables are the services', and its changes make Debian's own files run and prove themselves."""

import re
from pathlib import Path

import pytest

import doc_tables
from local_host import LocalHost
from running_services import page, running
from waiting import wait_until

STOCK = Path(__file__).parents[2] / "fixtures" / "stock"
PAGE = doc_tables.PAGE.read_text()


def changed(name: str) -> str:
    """Return one of Debian's files with the page's changes; every line that goes must be there."""
    heading = next(part for part in PAGE.split("\n### ") if part.startswith(name))
    lines = re.findall(r"```diff\n(.*?)```", heading, re.DOTALL)[0].splitlines()
    text = (STOCK / name).read_text().splitlines()
    at = 0
    for line in lines:
        if line.startswith("-"):
            at = [kept.strip() for kept in text].index(line[1:].strip())
            del text[at]
        else:
            text.insert(at, line[1:])
            at += 1
    return "\n".join(text) + "\n"


@pytest.mark.parametrize("service, name", [("nginx", "nginx.conf"), ("httpd", "apache2.conf")])
def test_docs_page_on_services_has_a_working_example_with_debian_nginx(
    here: LocalHost, free_ports: list[int], service: str, name: str
) -> None:
    if service == "httpd" and not Path("/etc/apache2/mods-enabled").is_dir():
        pytest.skip("Debian's apache2.conf loads /etc/apache2/mods-enabled: apt-get install apache2")
    with running(here, service, free_ports[0], main=changed(name).encode(), page_bytes=30, counters="on") as one:
        proof = one.prove(here)
        assert proof.live, proof.evidence
        assert page(here, one) == b"hello, world\n" * 2 + b"hell"
        wait_until(lambda: one.counters(here)["requests"] >= 2)  # httpd counts a request after it has answered it


def test_docs_page_on_services_has_a_working_example_with_debian_haproxy(
    here: LocalHost, free_ports: list[int]
) -> None:
    main = changed("haproxy.cfg").encode()
    with running(here, "nginx", free_ports[1]) as web, running(here, "haproxy", free_ports[0], web, main=main) as one:
        proof = one.prove(here)
        assert proof.live, proof.evidence
        assert page(here, one) == b"hello"
        assert one.counters(here) == {"connections": 1, "requests": 1, "upstream_connections": 1}


def test_user_haproxy_configuration_without_stats_is_ready_when_it_listens(
    here: LocalHost, free_ports: list[int]
) -> None:
    main = changed("haproxy.cfg").partition("frontend side")[0].encode()
    with running(here, "nginx", free_ports[1]) as web, running(here, "haproxy", free_ports[0], web, main=main) as one:
        assert one.prove(here).live is None
        assert page(here, one) == b"hello"
