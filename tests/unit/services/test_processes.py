"""Workers of a service are counted from its processes, as the host prints them."""

from __future__ import annotations

import pytest

from loadbook.services import load_service
from loadbook.services.processes import ServiceProcess, count_workers, parse_processes
from loadbook.services.spec import ServiceSpec

NGINX = """12 1 nginx: worker process
9 1 nginx: master process nginx -p /w/services/web/ -c nginx.conf
13 1 nginx: worker process
14 1 nginx: cache manager process
"""
NODE = "31 11 node/w/built/app.jsrun/w/app.json\n40 11 /usr/bin/node/w/built/worker.jsapp.json\n"


def test_processes_are_parsed_oldest_first():
    first, *others = parse_processes(NGINX)
    assert first == ServiceProcess(9, 1, "nginx: master process nginx -p /w/services/web/ -c nginx.conf")
    assert [process.pid for process in others] == [12, 13, 14]


@pytest.mark.parametrize(("service", "output", "count"), [
    ("nginx", NGINX, 2), ("node-app", NODE, 1), ("haproxy", "7 4 haproxy-db-fhaproxy.cfg\n", 4),
    ("go-app", "7 9 go-apprun\n", None), ("httpd", "7 2 apache2\n", None),
    ("nginx", "", None), ("nginx", "9\n12\n", None), ("haproxy", "7\n", None),
])  # fmt: skip
def test_workers_are_counted_as_the_service_says_and_not_known_in_recordings_without_command_lines(
    service, output, count
):
    assert count_workers(load_service(service).workers, parse_processes(output)) == count


def test_setting_of_workers_is_a_variable_of_the_service():
    raw = load_service("nginx").model_dump() | {"workers": {"setting": "nothing"}}
    with pytest.raises(ValueError, match=r"workers.setting: nothing is not one of the vars"):
        ServiceSpec.model_validate(raw)
