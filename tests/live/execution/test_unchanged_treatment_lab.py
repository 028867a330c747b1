"""A treatment whose variable the user's own configuration file does not use: said before the load, doubted after it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import loadbook
from lab_study import ON_A_BUSY_MACHINE
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from recorded_run import with_studies

STUDY = (
    """
include = "aa.toml"
name = "forgotten"
blocks = 1

[roles.web]
config = "own.conf"
"""
    + ON_A_BUSY_MACHINE
    + """stall = 0.9

[factors]
tcp_nopush = { levels = ["unset", "on"] }
keepalive_requests = { levels = [100_000_000, 10_000] }

[treatments.nopush]
set = { tcp_nopush = "on" }

[treatments.requests]
set = { keepalive_requests = 10_000 }
"""
)
TEXT = "tcp_nopush = on: the load and the configuration of every service are those of the baseline"


def test_treatment_that_changes_nothing_is_named_before_the_load_and_doubted_after_it(lab, tmp_path):
    layout = with_studies(tmp_path / "home")
    template = Path(loadbook.__file__).with_name("services") / "nginx" / "nginx.conf.j2"
    lines = [line for line in template.read_text().splitlines(keepends=True) if "tcp_nopush" not in line]
    (layout.studies / "own.conf").write_text("".join(lines))
    (layout.studies / "forgotten.toml").write_text(STUDY)
    events = []
    run = run_study(layout, RunRequest("forgotten", lab.hosts_file), on_event=events.append)
    warnings = [event.message for event in events if event.kind == "note" and "changes nothing" in event.message]
    assert warnings == [f"warning: treatment nopush changes nothing: {TEXT}"]
    paths = layout.run("forgotten", run)
    ingest(paths)
    problems = pd.read_parquet(paths.table("problems"))
    hits = problems[problems["name"] == "treatment_not_exercised"]
    assert [
        (level, message.partition(": two arms")[0])
        for level, message in zip(hits["level"], hits["message"], strict=True)
    ] == [("doubt", f"nopush: {TEXT}")]
