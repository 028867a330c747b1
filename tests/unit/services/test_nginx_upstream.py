"""nginx before others: balancing, kept connections, FastCGI, unix sockets, TLS, all with real processes."""

import pytest

from loadbook.core.errors import StudyError
from loadbook.services import InstanceContext, load_service, render

NGINX = load_service("nginx")
PLACE = InstanceContext("/w/t1", "127.0.0.1", 18080)


def conf(**values: str | int) -> str:
    behind = [{"node": "a", "address": "10.0.0.1", "port": 80, "dir": "/w/a", "local": False}]
    extra = {"backends": behind, "cpus": [0, 3]}
    return render(NGINX, values, InstanceContext("/w/t1", "127.0.0.1", 18080, extra)).files["nginx.conf"].decode()


def test_nginx_upstream_keepalive_is_written_as_in_the_published_article() -> None:
    text = conf(upstream="http", upstream_keepalive=100, balance="least-conn")
    for line in ("keepalive 100;", "proxy_http_version 1.1;", 'proxy_set_header Connection "";', "least_conn;"):
        assert f"\n{line}\n" in text
    assert "fastcgi_keep_conn on;" in conf(upstream="fastcgi", upstream_keepalive=100)
    assert "keepalive" not in conf(upstream="http") and "proxy_http_version" not in conf(upstream="http")


def test_upstream_keepalive_off_means_the_same_before_and_after_nginx_1_29_7() -> None:
    """From that version on, nginx keeps connections to upstreams by default; off asks for the older default."""
    text = conf(upstream="http", upstream_keepalive="off")
    assert "\nproxy_http_version 1.0;\nproxy_set_header Connection close;\n" in text and "\nkeepalive " not in text
    text = conf(upstream="fastcgi", upstream_keepalive="off")
    assert "\nfastcgi_keep_conn off;\n" in text and "\nkeepalive " not in text


def test_nginx_workers_are_pinned_to_separate_cpus() -> None:
    assert "\nworker_cpu_affinity 1 1000;\n" in conf(worker_cpu_affinity="on")


def test_nginx_variables_that_add_a_known_cost_apply_with_an_upstream() -> None:
    assert conf(upstream="http", set_steps=3).count("location / {") == 1
    assert conf(upstream="http", upstream_path="/api", set_steps=3).count("set $spent") == 3


@pytest.mark.parametrize(
    "values, why",
    [
        ({"upstream": "http"}, "upstream = http needs a role behind it"),
        ({"page": "node", "page_bytes": 9}, "page = node: 9 bytes do not hold `node node`"),
    ],
)
def test_nginx_upstream_settings_that_conflict_are_refused(values: dict[str, str | int], why: str) -> None:
    with pytest.raises(StudyError, match=why):
        render(NGINX, values, PLACE)


def test_nginx_unix_socket_of_another_host_is_refused() -> None:
    with pytest.raises(StudyError, match="the backend on a is on another host than nginx"):
        conf(upstream="http", upstream_socket="on")


def test_user_configuration_file_error_names_its_line() -> None:
    with pytest.raises(StudyError, match=r"(?s)config: .*line 2"):
        render(NGINX, {}, PLACE, main=b"events {}\n{{ 1 + }}\n")
    with pytest.raises(StudyError, match=r"nginx\.conf: UndefinedError: 'prot' is undefined"):
        render(NGINX, {}, PLACE, main=b"listen {{ prot }};")
