"""A server that says only in its log that a line is not in force: recorded with the trial, a doubt on the page."""

from __future__ import annotations

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

LIMIT = 2_000_000_000  # above fs.nr_open: refused to everybody
STUDY = (
    """
include = "aa.toml"
name = "refused"
blocks = 1
execution = "EXECUTION"

[roles.web]
config = "own.conf"
"""
    + ON_A_BUSY_MACHINE
    + """
[factors]
worker_processes = { levels = [1, 2] }

[treatments.tuned]
set = { worker_processes = 2 }
"""
)


@pytest.mark.parametrize("execution", ["plain", "interleaved"])
def test_line_that_is_not_in_force_is_one_doubt_with_its_treatment(execution, lab, tmp_path):
    layout = with_studies(tmp_path / "home")
    template = Path(loadbook.__file__).with_name("services") / "nginx" / "nginx.conf.j2"
    line = f"{{% if worker_processes == 2 %}}\nworker_rlimit_nofile {LIMIT};\n{{% endif %}}\n"
    (layout.studies / "own.conf").write_text(line + template.read_text())
    (layout.studies / "refused.toml").write_text(STUDY.replace("EXECUTION", execution))
    paths = layout.run("refused", run_study(layout, RunRequest("refused", lab.hosts_file)))
    ingest(paths)
    records = [trial_record.read_trial(folder) for folder in paths.trials.iterdir()]
    warned = {record.treatment: record.services[0].warnings for record in records}
    refusal = f"[alert] setrlimit(RLIMIT_NOFILE, {LIMIT}) failed (1: Operation not permitted)"
    assert warned == {"baseline": [], "again": [], "tuned": [refusal]}
    (doubt,) = [m for m in doubt_messages(load_run(layout, "refused")) if m.name == "service_warnings"]
    assert doubt.title == "Warnings in a server's log"
    assert doubt.text.startswith(f"web: nginx logged “{refusal}” in tuned: a line of the configuration")
