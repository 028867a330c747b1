"""Whole runs over SSH in the lab: to the end, killed at any instant, interrupted, refused."""

from __future__ import annotations

import json
import signal

import pytest

from controller_processes import loadbook
from lab_study import SMALL
from loadbook.core.errors import UsageError
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.store.paths import Layout
from recorded_run import with_studies


@pytest.fixture
def layout(tmp_path) -> Layout:
    made = with_studies(tmp_path / "home")
    (made.studies / "small.toml").write_text(SMALL)
    return made


def test_unfinished_run_is_not_resumed_with_other_hosts(lab, layout, tmp_path):
    controller = loadbook(layout, "run", "small", "--hosts", str(lab.hosts_file))
    for line in controller.stderr:
        if "t0001" in line:
            break
    controller.send_signal(signal.SIGTERM)
    assert controller.wait(timeout=30) == 130
    other = tmp_path / "hosts.toml"
    other.write_text(lab.hosts_file.read_text().replace('hosts."driver"', 'hosts."load"'))
    (tmp_path / "known_hosts").write_bytes((lab.folder / "known_hosts").read_bytes())
    with pytest.raises(UsageError, match="host driver is not there any more\n  host load is new"):
        run_study(layout, RunRequest("small", other))
    file = layout.run("small", layout.resolve_run("small")).facts / "web-before.json"
    kept = json.loads(file.read_text())
    file.write_text(json.dumps(kept | {"kernel": {"value": "2.0.36", "kind": "identity"}}))
    with pytest.raises(UsageError, match=r"host web: kernel was 2\.0\.36, is") as refused:
        run_study(layout, RunRequest("small", lab.hosts_file))
    assert "--new" in refused.value.hint
    file.write_text(json.dumps(kept))
    run_study(layout, RunRequest("small", lab.hosts_file))


def test_resumed_run_removes_files_and_jobs_left_by_killed_preflight_checks(lab, layout):
    def interrupted(event):
        if event.kind == "trial-started":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(layout, RunRequest("small", lab.hosts_file, blocks=1), on_event=interrupted)
    run = layout.resolve_run("small")
    left = [lab.folder / "web/work" / name for name in (f"jobs/{run}-preflight-guard", f"services/{run}-preflight-web")]
    for folder in left:
        folder.mkdir(parents=True)
    assert run_study(layout, RunRequest("small", lab.hosts_file)) == run
    assert not [folder for folder in left if folder.exists()]
