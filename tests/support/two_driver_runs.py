"""Studies of two drivers, and their tables."""

from __future__ import annotations

import pandas as pd

from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.store import trial_record
from loadbook.store.tables import TABLES, read_table
from waiting import meanwhile

SPEC = """
include = "aa.toml"
name = "{name}"
blocks = 1
execution = "{execution}"

[workload]
tool = "{tool}"
connections = {connections}
threads = {threads}
warmup_s = 0.2
extra = {extra}

[reset]
time_wait_sockets = 1000000

[validity]
driver_cpu = 1.0
"""
DRIVERS = ["driver", "driver-2"]
KILLED = "host driver-2: wrk was killed by signal 9 (SIGKILL, as the kernel does when memory runs out): exit code 137"
# what a replay does in its own time
OWN_TIMES = ["run", "started", "duration_s"]


def write(layout, name, tool="wrk", connections=11, threads=1, extra="[]", execution="plain"):
    text = SPEC.format(name=name, tool=tool, connections=connections, threads=threads, extra=extra, execution=execution)
    (layout.studies / f"{name}.toml").write_text(text)


def tables(layout, name, run) -> dict[str, pd.DataFrame]:
    ingest(layout.run(name, run))
    found = {t: read_table(layout.run(name, run).table(t), t) for t in TABLES}
    return {t: frame.drop(columns=[c for c in OWN_TIMES if c in frame]) for t, frame in found.items()}


def run_with_kill(lab, layout, name, kill) -> str:
    """Run a study while `kill` ends a load generator on the second driver, for which the first trial must fail."""
    with meanwhile(lambda: kill(lab.folder / "driver-2/work/jobs")):
        run = run_study(layout, RunRequest(name, lab.hosts_file))
    record = trial_record.read_trial(layout.run(name, run).failed / "t0001-attempt1")
    assert (record.status, record.reason) == ("tool_failed", KILLED)
    assert [d.rc for d in record.drivers] == [0, 137]
    return run
