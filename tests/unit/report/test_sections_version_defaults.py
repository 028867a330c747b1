"""The table of hosts names the default that held where it depends on the version of a service."""

from types import SimpleNamespace
from typing import Any, cast

from loadbook.report.sections import host_table
from loadbook.study.model import Study
from run_records import make_run_record


def run_of_a_proxy(version: str, keepalive: int | str) -> Any:
    web = {"service": "nginx", "vars": {"upstream": "http", "upstream_keepalive": keepalive}, "backends": "app"}
    study = Study.model_validate(
        {
            "name": "x", "question": "Does it matter?", "baseline": "base", "workload": {"tool": "wrk"},
            "roles": {"driver": {}, "web": web, "app": {"service": "go-app"}}, "treatments": {"base": {}},
        }
    )  # fmt: skip
    hosts = {"driver": {"roles": ["driver"]}, "web1": {"roles": ["web", "app"]}}
    versions = {"web1": f"nginx {version}, go-app 0123 (go 1.19)"}
    run = make_run_record(hosts=hosts, service_versions=versions)
    return cast("Any", SimpleNamespace(run_record=run, study=study, facts={}))


def rows(version: str, keepalive: int | str) -> list[list[str]]:
    return [row for row in host_table(run_of_a_proxy(version, keepalive)).rows if row[0].endswith(" unset")]


def test_report_states_defaults_of_the_nginx_version_that_ran() -> None:
    assert rows("1.22.1", "unset") == [["upstream_keepalive unset", "–", "one connection per request, HTTP/1.0"]]
    assert rows("1.29.7", "unset") == [["upstream_keepalive unset", "–", "kept connections, HTTP/1.1"]]
    assert rows("1.29.7", "off") == rows("1.22.1", 32) == []
