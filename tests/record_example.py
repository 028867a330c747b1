"""Makes data/example/ again: a real run in a lab of its own; in two trials a stranger takes the server's CPU.

python tests/record_example.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from loadbook.hosts.lab import Lab
from loadbook.records.layout import EXAMPLE, Layout
from loadbook.trials.api import run_study
from loadbook.trials.progress import Progress
from record_run import rename_folder, wait_for_quiet
from recorded import REPO, with_studies

SPEC = f"""
schema = 1
name = "{EXAMPLE}"
question = "Does an access log make a small static page slower?"
baseline = "no-log"
blocks = 8
seed = 7
margin = 0.02

[roles.driver]

[roles.web]
service = "nginx"
vars = {{ access_log = false }}

[workload]
tool = "wrk"
connections = 20
warmup_s = 0.5
duration_s = 2.0
path = "/index.html"

[factors.access_log]
role = "web"
levels = [false, true]

[treatments.no-log]
label = "no access log"

[treatments.no-log-again]
label = "no access log, again"
same_as = "no-log"
check = "aa"

[treatments.log]
label = "access log"
set = {{ access_log = true }}

[gates]
driver_cpu = 1.0
"""
DISTURBED = ("t0010", "t0017")
BUSY = "while :; do :; done"


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="loadbook-example-"))
    layout = with_studies(folder / "home")
    (layout.studies / f"{EXAMPLE}.toml").write_text(SPEC)
    lab = Lab(folder / "lab", net="127.77.3")
    strangers: list[subprocess.Popen[bytes]] = []

    def on_event(event: Progress) -> None:
        print(event.line(), file=sys.stderr)
        if event.kind == "trial-started":
            wait_for_quiet()
        if event.kind == "trial-started" and event.trial in DISTURBED:
            cpu = tomllib.loads(lab.hosts_file.read_text())["hosts"]["web"]["cpus"][0]
            command = ["timeout", "20", "nice", "-n", "4", "taskset", "-c", str(cpu), "sh", "-c", BUSY]
            strangers.append(subprocess.Popen(command))
        if event.kind == "trial-ended":
            while strangers:
                strangers.pop().terminate()

    try:
        lab.up()
        run = run_study(layout, EXAMPLE, lab.hosts_file, on_event=on_event)
    finally:
        lab.down()
    raw = layout.run(EXAMPLE, run).raw
    rename_folder(raw, folder)
    kept = Layout(REPO).study_raw(EXAMPLE)
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(raw, kept / run)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
