"""Script that records data/example/ anew: a real run in a lab; in two trials another process uses the server's CPU.

On an idle machine: python tests/support/record_example.py; on a busy one with `chrt -r 5` before it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from loadbook.execution.progress import Progress
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.store.paths import EXAMPLE_STUDY, Layout
from recorded_run import REPO, with_studies

STUDY = "access-log"
SPEC = f"""
schema = 1
name = "{STUDY}"
question = "What does an access log cost a small static page?"
baseline = "no-log"
blocks = 6
seed = 7
margin = 0.02

[roles.driver]

[roles.web]
service = "nginx"
vars = {{ access_log = "off" }}

[workload]
tool = "wrk"
connections = 20
warmup_s = 0.3
duration_s = 1.0
path = "/index.html"

[factors.access_log]
role = "web"
levels = ["off", "buffered", "unbuffered"]

[treatments.no-log]
label = "no access log"

[treatments.no-log-again]
label = "no access log, again"
same_as = "no-log"
check = "aa"

[treatments.buffered]
label = "access log, buffered"
set = {{ access_log = "buffered" }}

[treatments.unbuffered]
label = "access log, a write per request"
set = {{ access_log = "unbuffered" }}

[monitors]
interval_s = 0.2

[validity]
driver_cpu = 1.0
"""
FOLDER = Path("/tmp/loadbook-lab")  # stands in what is recorded, so it is always this one
DISTURBED = ("t0007", "t0018")
BUSY = "while :; do i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done; sleep 0.03; done"


def main() -> None:
    FOLDER.mkdir(mode=0o700)
    layout = with_studies(FOLDER / "home")
    (layout.studies / f"{STUDY}.toml").write_text(SPEC)
    lab = Lab(FOLDER / "lab", net_prefix="127.77.3")
    strangers: list[subprocess.Popen[bytes]] = []

    def on_event(event: Progress) -> None:
        print(event.line(), file=sys.stderr)
        if event.kind == "trial-started" and event.trial in DISTURBED:
            cpu = tomllib.loads(lab.hosts_file.read_text())["hosts"]["web"]["cpus"][0]
            command = ["timeout", "20", "taskset", "-c", str(cpu), "sh", "-c", BUSY]
            strangers.append(subprocess.Popen(command))
        if event.kind == "trial-ended":
            while strangers:
                strangers.pop().terminate()

    try:
        lab.up()
        run = run_study(layout, STUDY, lab.hosts_file, on_event=on_event)
    finally:
        lab.down()
    raw = layout.run(STUDY, run).raw
    shutil.rmtree(raw / "staging", ignore_errors=True)
    kept = Layout(REPO).study_raw(EXAMPLE_STUDY)
    kept.unlink() if kept.is_symlink() else shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(raw, kept / run)
    shutil.rmtree(FOLDER)


if __name__ == "__main__":
    main()
