"""Every configuration of the factorial studies passes nginx's own check, and says what its study means."""

from pathlib import Path

from loadbook.services import InstanceContext, load_service, render
from loadbook.study.reader import read_study

STUDIES = Path(__file__).parents[3] / "studies"


def test_tuned_configuration_has_all_directives_of_the_published_article() -> None:
    study, nginx = read_study(STUDIES / "nginx-tuned-groups.toml"), load_service("nginx", [])
    before, after = (
        render(nginx, study.vars_of(name, "web"), InstanceContext("/w", "127.0.0.1", 18080))
        .files["nginx.conf"]
        .decode()
        .splitlines()
        for name in ("before", "abcdefgh")
    )
    added = {line for line in after if line not in before}
    assert {
        "worker_processes auto;", "worker_rlimit_nofile 100000;", "worker_connections 2048;", "multi_accept on;",
        "use epoll;", "sendfile on;", "tcp_nopush on;", "tcp_nodelay off;", "keepalive_timeout 3;",
        "client_header_timeout 60;", "client_body_timeout 60;", "send_timeout 60;", "reset_timedout_connection on;",
        "gzip on;", "gzip_min_length 1024;", "gzip_comp_level 6;", "open_file_cache max=1000 inactive=10s;",
        "open_file_cache_valid 60;", "open_file_cache_min_uses 1;", "access_log access-0.log extended;",
        "limit_conn address 100;", "limit_conn_zone $binary_remote_addr zone=address:10m;",
    } <= added  # fmt: skip


def test_all_directive_groups_together_equal_the_tuned_configuration() -> None:
    groups, whole = (read_study(STUDIES / f"nginx-{name}.toml") for name in ("tuned-groups", "whole-file"))
    assert groups.vars_of("before", "web").items() >= whole.vars_of("before", "web").items()
    assert groups.vars_of("abcdefgh", "web").items() >= whole.vars_of("after", "web").items()
    assert len(whole.vars_of("after", "web")) == 25
