"""`endpoint` in templates: address and port in one text, an IPv6 address in brackets; the id of the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from loadbook.core.errors import StudyError
from loadbook.services import InstanceContext, load_service, render
from loadbook.services.render import RenderedService

V4, V6 = ("192.0.2.7", "192.0.2.8"), ("2001:db8::7", "2001:db8::8")
FRONTS = {"nginx": {"upstream": "http"}, "haproxy": {}, "httpd": {}}
LINES = {
    ("nginx", V4): ["listen 192.0.2.7:18080;", "server 192.0.2.8:18081;"],
    ("nginx", V6): ["listen [2001:db8::7]:18080;", "server [2001:db8::8]:18081;"],
    ("haproxy", V4): ["bind 192.0.2.7:18080", "server web1 192.0.2.8:18081", "bind 192.0.2.7:28080"],
    ("haproxy", V6): ["bind [2001:db8::7]:18080", "server web1 [2001:db8::8]:18081", "bind [2001:db8::7]:28080"],
    ("httpd", V4): ["Listen 192.0.2.7:18080"],
    ("httpd", V6): ["Listen [2001:db8::7]:18080"],
}


def rendered(service: str, addresses: tuple[str, str], main: bytes | None = None, **more: Any) -> RenderedService:
    backend = {"node": "web1", "address": addresses[1], "port": 18081, "dir": "/w", "local": False}
    place = InstanceContext("/place", addresses[0], 18080, {"backends": [backend], **more})
    return render(load_service(service), FRONTS.get(service, {}), place, "token", main=main)


def main_text(service: str, addresses: tuple[str, str], main: bytes | None = None, **more: Any) -> str:
    return rendered(service, addresses, main, **more).files[load_service(service).main or ""].decode()


@pytest.mark.parametrize(("service", "addresses"), LINES)
def test_services_listen_and_connect_at_the_endpoint(service: str, addresses: tuple[str, str]) -> None:
    text = main_text(service, addresses)
    for line in LINES[service, addresses]:
        assert line.replace("28080", str(InstanceContext("", "", 18080).side_port)) in text


@pytest.mark.parametrize("service", FRONTS)
def test_configuration_has_one_id_at_addresses_of_either_kind(service: str) -> None:
    assert rendered(service, V4).config_sha256 == rendered(service, V6).config_sha256


@pytest.mark.parametrize(("addresses", "listen"), [(V4, "listen *:18080;"), (V6, "listen [::]:18080;")])
def test_nginx_that_also_answers_for_balancers_listens_at_all_addresses_of_its_kind(
    addresses: tuple[str, str], listen: str
) -> None:
    assert listen in main_text("nginx", addresses, also_at=["192.0.2.9"])


def test_own_template_has_address_and_port_as_before_and_the_ready_made_names() -> None:
    own = b"{{ address }}:{{ port }} {{ endpoint }} {{ side_endpoint }} {{ backends[0].endpoint }}\n"
    side = InstanceContext("", "", 18080).side_port
    assert main_text("nginx", V4, own) == f"192.0.2.7:18080 192.0.2.7:18080 192.0.2.7:{side} 192.0.2.8:18081\n"
    v6 = "[2001:db8::7]"
    assert main_text("nginx", V6, own) == f"2001:db8::7:18080 {v6}:18080 {v6}:{side} [2001:db8::8]:18081\n"


@pytest.mark.parametrize("service", ["nft-dnat", "nft-dsr"])
def test_packet_rules_refuse_an_ipv6_address_by_name(service: str) -> None:
    with pytest.raises(StudyError, match=f"{service} is made for IPv4: 2001:db8::7 is an IPv6 address"):
        rendered(service, V6)
    assert b"192.0.2.7" in b"".join(rendered(service, V4).files.values())
