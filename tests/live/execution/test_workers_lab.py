"""Workers of a service: recorded with the trial, a doubt where nginx chose more than the CPUs of its host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import loadbook
from lab_study import ON_A_BUSY_MACHINE
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.report.sections import doubt_messages
from loadbook.store import trial_record
from loadbook.store.tables import load_run
from recorded_run import with_studies

MACHINE_CPUS = os.cpu_count() or 1
STUDY = (
    """
include = "aa.toml"
name = "workers"
blocks = 1
execution = "plain"

[roles.web]
KEYS

"""
    + ON_A_BUSY_MACHINE
    + """
[factors]
worker_processes = { levels = [1, 2, "auto"] }

[treatments.chosen]
set = { worker_processes = 2 }

[treatments.auto]
set = { worker_processes = "auto" }
"""
)


@pytest.mark.skipif(MACHINE_CPUS < 2, reason="auto is one worker on one CPU")
@pytest.mark.parametrize("own_file", [False, True], ids=["variable", "own-file"])
def test_automatic_workers_beyond_the_cpus_of_the_host_are_a_doubt_and_a_chosen_number_is_none(own_file, lab, tmp_path):
    layout = with_studies(tmp_path / "home")
    template = Path(loadbook.__file__).with_name("services") / "nginx" / "nginx.conf.j2"
    (layout.studies / "own.conf").write_text(template.read_text())
    (layout.studies / "workers.toml").write_text(STUDY.replace("KEYS", 'config = "own.conf"' if own_file else ""))
    paths = layout.run("workers", run_study(layout, RunRequest("workers", lab.hosts_file)))
    ingest(paths)
    services = {r.treatment: r.services[0] for r in map(trial_record.read_trial, paths.trials.iterdir())}
    assert {name: (s.workers.count, s.workers.automatic) for name, s in services.items()} == {
        "baseline": (1, False), "again": (1, False), "chosen": (2, False), "auto": (MACHINE_CPUS, True),
    }  # fmt: skip
    assert all(len(service.cpus) < MACHINE_CPUS for service in services.values())
    (doubt,) = [m for m in doubt_messages(load_run(layout, "workers")) if m.name == "more_workers_than_cpus"]
    cpus = len(services["auto"].cpus)
    given = f"{cpus} CPU" + "s" * (cpus != 1)
    assert doubt.text.startswith(
        f"web: nginx has {MACHINE_CPUS} workers on {given} in auto (worker_processes = {cpus} would fit): "
    )
