"""Script that records data/example/ or data/example-sizes/ anew: real runs in a lab.

On an idle machine: python tests/support/record_example.py [example-sizes]. In one block of `example` another process
uses the server's CPU. It must have one faster, one equivalent and one undecided treatment, or the script ends with an
error and keeps nothing.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from loadbook.execution.progress import Progress
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.ingestion.ingest import ingest
from loadbook.stats.analyse import analyse
from loadbook.store.paths import EXAMPLE_STUDY, SIZES_EXAMPLE, Layout
from loadbook.store.tables import load_run
from recorded_run import REPO, with_studies

STUDY = "small-page"
SPEC = f"""
schema = 1
name = "{STUDY}"
question = "Which setting of nginx serves a small static page faster?"
baseline = "log"
blocks = 16
seed = 7
margin = 0.02
execution = "interleaved"

[roles.driver]

[roles.web]
service = "nginx"
[roles.web.vars]
worker_processes = 1
access_log = "unbuffered"
multi_accept = "off"
keepalive_requests = 100_000_000

[workload]
tool = "wrk"
connections = 20
warmup_s = 0.3
duration_s = 1.0
path = "/index.html"

[factors]
access_log = {{ levels = ["unbuffered", "buffered"] }}
multi_accept = {{ levels = ["off", "on"] }}
worker_processes = {{ levels = [1, 2] }}

[treatments.log]
label = "access log, a write per request"

[treatments.log-again]
label = "the same again"
same_as = "log"
check = "aa"

[treatments.buffered]
label = "access log, buffered"
set = {{ access_log = "buffered" }}

[treatments.multi-accept]
label = "multi_accept on"
set = {{ multi_accept = "on" }}

[treatments.two-workers]
label = "two workers on one CPU"
set = {{ worker_processes = 2 }}

[monitors]
interval_s = 0.5

[validity]
driver_cpu = 1.0
"""
SIZES = "page-sizes"
SIZES_SPEC = f"""
schema = 1
name = "{SIZES}"
question = "How many pages of each size per second, with and without sendfile?"
baseline = "1024-off"
blocks = 5
seed = 11
margin = 0.05
execution = "interleaved"

[roles.driver]

[roles.web]
service = "nginx"
[roles.web.vars]
worker_processes = 1
access_log = "off"
sendfile = "off"
page_bytes = 1024
keepalive_requests = 100_000_000

[workload]
tool = "wrk"
connections = 20
warmup_s = 0.2
duration_s = 1
path = "/index.html"

[factors]
page_bytes = {{ levels = [1024, 8192, 65_536, 262_144] }}
sendfile = {{ levels = ["off", "on"] }}
set_steps = {{ levels = [0, 100] }}

[grid]
factors = ["page_bytes", "sendfile"]
label = "{{page_bytes}} bytes, sendfile {{sendfile}}"

[treatments.again]
label = "the baseline again"
same_as = "1024-off"
check = "aa"

[treatments.control]
label = "control: 100 set directives"
set = {{ set_steps = 100 }}
check = "control"
expect = "worse"

[monitors]
interval_s = 1.0

[validity]
driver_cpu = 1.0
"""
VERDICTS = ["better", "equivalent", "undecided"]  # of buffered, and of the other two in either order
FOLDER = Path("/tmp/loadbook-lab")  # stands in what is recorded, so it is always this one
DISTURBED = (4,)  # blocks
BUSY = "while :; do i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done; sleep 0.03; done"


def main(example: str = EXAMPLE_STUDY) -> None:
    study, spec = (SIZES, SIZES_SPEC) if example == SIZES_EXAMPLE else (STUDY, SPEC)
    disturbed = DISTURBED if study == STUDY else ()
    FOLDER.mkdir(mode=0o700)
    layout = with_studies(FOLDER / "home")
    (layout.studies / f"{study}.toml").write_text(spec)
    lab = Lab(FOLDER / "lab", net_prefix="127.77.3")
    strangers: list[subprocess.Popen[bytes]] = []

    def on_event(event: Progress) -> None:
        print(event.line(), file=sys.stderr)
        if event.kind == "trial-started" and event.block in disturbed and not strangers:
            cpu = tomllib.loads(lab.hosts_file.read_text())["hosts"]["web"]["cpus"][0]
            command = ["timeout", "20", "taskset", "-c", str(cpu), "sh", "-c", BUSY]
            strangers.append(subprocess.Popen(command))
        if event.kind == "trial-ended":
            while strangers:
                strangers.pop().terminate()

    try:
        lab.up()
        run = run_study(layout, RunRequest(study, lab.hosts_file), on_event=on_event)
    finally:
        lab.down()
    paths = layout.run(study, run)
    ingest(paths)
    verdicts = {row.treatment: row.verdict for row in analyse(load_run(layout, study, run)).rows}
    for name, verdict in verdicts.items():
        print(name, verdict and (verdict.kind, verdict.comparison.effect, verdict.comparison.ci95), file=sys.stderr)
    if study == STUDY:
        kinds = [verdict.kind for name, verdict in verdicts.items() if verdict and name != "log-again"]
        if verdicts["buffered"] is None or verdicts["buffered"].kind != "better" or sorted(kinds) != VERDICTS:
            shutil.rmtree(FOLDER)
            sys.exit(f"the verdicts are {kinds}: record again")
    raw = paths.raw
    shutil.rmtree(raw / "staging", ignore_errors=True)
    kept = Layout(REPO).study_raw(example)
    kept.unlink() if kept.is_symlink() else shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(raw, kept / run)
    shutil.rmtree(FOLDER)


if __name__ == "__main__":
    main(*sys.argv[1:])
