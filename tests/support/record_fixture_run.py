"""Script that records the runs in tests/fixtures/ anew: real runs in a lab.

python tests/support/record_fixture_run.py: recorded-run, plain trials, of which one is killed on purpose
python tests/support/record_fixture_run.py interleaved: recorded-interleaved, a plain block for latencies and two others
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from loadbook.execution.progress import Progress
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.store import trial_record
from loadbook.store.ledger import _encode_entry as encode_entry
from loadbook.store.ledger import read_ledger
from loadbook.store.paths import RunPaths
from loadbook.store.verify import run_file_checksums
from recorded_run import FIXTURE, INCLUDED, INTERLEAVED_FIXTURE, REPO, STUDIES, STUDY, with_studies

# gates.driver_cpu: where the fixture is recorded, driver and server may share two CPUs with other work
SPEC = f"""
include = "{INCLUDED}"
name = "{STUDY}"
execution = "plain"
blocks = 8
subset = "recorded"

[subsets]
recorded = ["baseline-auto", "baseline-again", "auto-nopush", "control-access-log"]

[validity]
driver_cpu = 1.0
"""
INTERLEAVED_SPEC = """
schema = 1
name = "interleaved"
question = "Does tcp_nopush change a small static page?"
baseline = "off"
execution = "interleaved"
blocks = 2
latency_blocks = 1
seed = 3

[roles.driver]

[roles.web]
service = "nginx"
vars = { page_bytes = 5, sendfile = "on" }

[workload]
tool = "wrk"
path = "/index.html"
connections = 20
warmup_s = 0.3
duration_s = 1.0

[factors]
tcp_nopush = { role = "web", of = "vars", levels = ["off", "on"] }

[treatments.off]
[treatments.on]
set = { tcp_nopush = "on" }
[treatments.again]
check = "aa"
same_as = "off"

[validity]
driver_cpu = 1.0
"""
KILLED = "t0013"
QUIET = 0.8


def kill_load(jobs: Path) -> None:
    """Kill the load generator of one trial in the middle of its measurement."""
    for _ in range(1000):
        for step in jobs.glob(f"*-{KILLED}-a1-load/step"):
            if (step.parent / "times.1").exists():
                time.sleep(0.4)
                os.kill(int(step.read_text().split()[0]), signal.SIGKILL)
                return
        time.sleep(0.01)


def wait_for_quiet(limit_s: float = 10.0) -> None:
    """Wait until both CPUs were idle for a moment, at most `limit_s` seconds."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        before, begun = _idle_s(), time.monotonic()
        time.sleep(0.4)
        if _idle_s() - before > QUIET * (os.cpu_count() or 1) * (time.monotonic() - begun):
            return


def _idle_s() -> float:
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[4]) / os.sysconf("SC_CLK_TCK")


def rename_folder(run: Path, folder: Path) -> None:
    """Replace the path of the lab's folder by /lab in all recorded files, so that they do not depend on the machine."""
    for path in run.rglob("*"):
        if path.is_file() and str(folder).encode() in (data := path.read_bytes()):
            path.write_bytes(data.replace(str(folder).encode(), b"/lab"))
    for record in run.glob("*/*/trial.json"):
        trial_record.seal_trial(record.parent, trial_record.read_trial(record.parent))
    paths = RunPaths(run, run)
    entries = read_ledger(paths.ledger)
    for entry in entries:
        if entry["event"] == "ended" and entry["final"]:
            entry["sha256"] = trial_record.sha256_file(paths.trial(entry["trial"]) / trial_record.RECORD_NAME)
        if "files" in entry:
            entry["files"] = run_file_checksums(paths)
    paths.ledger.write_bytes(b"".join(map(encode_entry, entries)))


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="loadbook-record-"))
    layout = with_studies(folder / "home")
    (layout.studies / f"{STUDY}.toml").write_text(SPEC)
    lab = Lab(folder / "lab", net_prefix="127.77.2")

    def on_event(event: Progress) -> None:
        print(event.line(), file=sys.stderr)
        if event.kind == "trial-started":
            wait_for_quiet()
        if event.kind == "trial-started" and event.trial == KILLED:
            threading.Thread(target=kill_load, args=(folder / "lab/driver/work/jobs",)).start()

    try:
        lab.up()
        run = run_study(layout, RunRequest(STUDY, lab.hosts_file), on_event=on_event)
    finally:
        lab.down()
    shutil.rmtree(FIXTURE, ignore_errors=True)
    shutil.copytree(layout.run(STUDY, run).raw, FIXTURE / run)
    shutil.copyfile(layout.studies / INCLUDED, STUDIES / INCLUDED)
    rename_folder(FIXTURE / run, folder)
    shutil.rmtree(folder)
    size = sum(path.stat().st_size for path in FIXTURE.rglob("*") if path.is_file())
    print(f"{FIXTURE.relative_to(REPO)}: run {run}, {size} bytes")


def record_interleaved() -> None:
    folder = Path(tempfile.mkdtemp(prefix="loadbook-record-"))
    layout = with_studies(folder / "home")
    (layout.studies / "interleaved.toml").write_text(INTERLEAVED_SPEC)
    lab = Lab(folder / "lab", net_prefix="127.77.2")
    try:
        lab.up()
        run = run_study(layout, RunRequest("interleaved", lab.hosts_file), on_event=lambda event: print(event.line()))
    finally:
        lab.down()
    shutil.rmtree(INTERLEAVED_FIXTURE, ignore_errors=True)
    shutil.copytree(layout.run("interleaved", run).raw, INTERLEAVED_FIXTURE / run)
    (STUDIES / "interleaved.toml").write_text(INTERLEAVED_SPEC)
    rename_folder(INTERLEAVED_FIXTURE / run, folder)
    shutil.rmtree(folder)


if __name__ == "__main__":
    record_interleaved() if sys.argv[1:] == ["interleaved"] else main()
