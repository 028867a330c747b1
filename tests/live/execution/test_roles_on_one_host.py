"""One host with several roles, some of one service; and a service that ends during the load, which nobody asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.store import trial_record
from loadbook.store.paths import Layout, RunPaths
from recorded_run import with_studies

STUDY = """
include = "aa.toml"
name = "roles"
execution = "plain"
blocks = 1
subset = "all"
baseline = "whole"

[roles.spare]
service = "nginx"

[roles.extra.variants.brief]
service = "brief"

[workload]
duration_s = 1
warmup_s = 0

[factors]
extra = { role = "extra", of = "variant", levels = ["none", "brief"] }

[treatments.whole]
[treatments.broken]
set = { extra = "brief" }
"""
# asking what it counted, before the load, makes it end
SERVICE = r"""
name = "brief"
about = "ends as soon as it is asked what it counted"
binary = "python3"
package = "python3"
[version]
argv = ["python3", "--version"]
pattern = 'Python (\S+)'
[files]
"brief.py" = "brief.py"
[commands]
start = ["python3", "{{ dir }}/brief.py", "{{ address }}", "{{ port }}", "{{ dir }}"]
[ready]
tcp = true
[counters]
argv = ["sh", "-c", 'echo count 1; echo >"{{ dir }}/end"']
patterns = { requests = 'count (\d+)' }
"""
PROGRAM = """
import os, socket, sys, time
address, port, folder = sys.argv[1:]
with socket.create_server((address, int(port))):
    while not os.path.exists(f"{folder}/end"):
        time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def run(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunPaths, dict[str, trial_record.TrialRecord]]]:
    layout: Layout = with_studies(tmp_path_factory.mktemp("roles") / "home")
    base = layout.studies / "aa.toml"
    base.write_text(base.read_text().partition("[treatments")[0])
    (layout.studies / "roles.toml").write_text(STUDY)
    service = layout.studies / "services" / "brief"
    service.mkdir(parents=True)
    (service / "service.toml").write_text(SERVICE)
    (service / "brief.py").write_text(PROGRAM)
    hosts = lab.folder / "roles.toml"
    hosts.write_text(lab.hosts_file.read_text().replace('["web"]', '["web", "spare", "extra"]'))
    paths = layout.run("roles", run_study(layout, RunRequest("roles", hosts)))
    folders = [folder for place in (paths.trials, paths.failed) if place.is_dir() for folder in place.iterdir()]
    yield paths, {record.treatment: record for record in map(trial_record.read_trial, folders)}


def test_service_that_exits_during_the_load_fails_the_trial(run) -> None:
    records = run[1]
    assert (records["whole"].status, records["broken"].status) == ("ok", "invalid")
    assert "host web: brief ended during the load" in records["broken"].reason


def test_services_of_one_kind_are_monitored_separately(run) -> None:
    paths, records = run
    whole = records["whole"]
    pids = [pid for service in whole.services for pid in service.pids]
    seen = (paths.trial(whole.trial) / "monitor-web").read_text()
    assert len(whole.services) == 2 and sorted({m.host: m.pids for m in whole.monitors}["web"]["nginx"]) == sorted(pids)
    assert all(f" nginx:{service.pids[0]}" in seen for service in whole.services)
