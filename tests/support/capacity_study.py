"""A study of two capacities that are known: slots / hold time of an application."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from loadbook.hosts.shell import search_path
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.trial_record import TrialRecord, read_trial
from loadbook.tools.base import load_tool

NEEDS_VEGETA = pytest.mark.skipif(
    not shutil.which("vegeta", path=search_path()), reason=f"no vegeta: {load_tool('vegeta').install_hint}"
)
# 200 a second with four slots, 250 with five
STUDY = """
schema = 1
name = "sustained"
question = "How much load does each sustain?"
baseline = "four-slots"
blocks = {blocks}
[capacity]
within_s = {within_s}
share = 0.8
[roles.driver]
[roles.web]
service = "go-app"
vars = {{ hold_ms = {hold_ms}, slots = 4, page_bytes = 64 }}
[workload]
tool = "{tool}"
model = "open"
rate_per_s = {start}
duration_s = 1
warmup_s = 0
connections = 8
timeout_s = 8
[reset]
settle_s = 0
time_wait_sockets = 1000000
# where these run, driver and server share two CPUs with other work
[validity]
driver_cpu = 1.0
[factors]
slots = {{ levels = [4, 5] }}
[treatments.four-slots]
[treatments.five-slots]
set = {{ slots = 5 }}
"""

CERTIFIED_RATES = """
[factors.rate_per_s]
of = "workload"
levels = [80, 120, 600]
[treatments.low]
[treatments.middle]
set = { rate_per_s = 120 }
[treatments.high]
set = { rate_per_s = 600 }
"""
FRAGILE_SERVICE = """
name = "fragile"
about = "four requests at a time, 20 ms each; it dies with thirty in line"
binary = "python3"
package = "python3"
[version]
argv = ["python3", "-V"]
pattern = 'Python ([0-9.]+)'
[files]
"server.py" = "server.py.j2"
[commands]
start = ["python3", "{{ dir }}/server.py", "{{ address }}", "{{ port }}", "{{ config_id }}"]
[ready]
path = "/"
[prove]
path = "/id"
[vars.slots]
type = "int"
min = 1
max = 100
default = 4
about = "requests that are served at once"
"""
FRAGILE_SERVER = """
import http.server, os, sys, threading, time
slots, waiting, lock = threading.Semaphore({{ slots }}), [0], threading.Lock()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        with lock:
            waiting[0] += 1
            if waiting[0] > 30:
                os._exit(3)
        with slots:
            time.sleep(0.02)
        with lock:
            waiting[0] -= 1
        body = sys.argv[3].encode() if self.path == "/id" else b"hello"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""

EXTERNAL_ROLE = """[roles.web]
[roles.web.variants.four]
external = "{four}"
[roles.web.variants.five]
external = "{five}"
"""


def written(layout: Layout, **values: Any) -> None:
    text = STUDY.format(**{"blocks": 1, "within_s": 0.1, "hold_ms": 20, "start": 180, "tool": "vegeta"} | values)
    (layout.studies / "sustained.toml").write_text(text)


def keep_only_four_slots(layout: Layout) -> None:
    """Leave the first of the two arms in the written study."""
    study = layout.studies / "sustained.toml"
    study.write_text(study.read_text().partition("[treatments.five-slots]")[0])


def records_of(paths: RunPaths) -> list[TrialRecord]:
    return [read_trial(folder) for folder in sorted(paths.trials.iterdir())]


def written_to_certify(layout: Layout, **values: Any) -> None:
    """Write a study that certifies three rates for half of the starts: five starts at each."""
    text = STUDY.format(**{"blocks": 5, "within_s": 0.1, "hold_ms": 20, "start": 80, "tool": "vegeta"} | values)
    text = text.replace("share = 0.8", "share = 0.8\ncertified_share = 0.5").replace("four-slots", "low", 1)
    (layout.studies / "sustained.toml").write_text(text.partition("[factors]")[0] + CERTIFIED_RATES)


def use_fragile_service(layout: Layout) -> None:
    """Replace the application of the written study by one that dies under too much load."""
    folder = layout.studies / "services" / "fragile"
    folder.mkdir(parents=True)
    (folder / "service.toml").write_text(FRAGILE_SERVICE)
    (folder / "server.py.j2").write_text(FRAGILE_SERVER)
    study = layout.studies / "sustained.toml"
    text = study.read_text().replace('service = "go-app"', 'service = "fragile"')
    study.write_text(text.replace("hold_ms = 20, slots = 4, page_bytes = 64", "slots = 4"))


def written_for_external_targets(layout: Layout, four: str, five: str, **values: Any) -> None:
    """Write the study for two servers at these addresses that loadbook neither starts nor sees into."""
    written(layout, **values)
    study = layout.studies / "sustained.toml"
    before, _, rest = study.read_text().partition("[roles.web]")
    rest = "[workload]" + rest.partition("[workload]")[2].replace("settle_s = 0", "settle_s = 1")
    rest = rest.replace(
        "slots = { levels = [4, 5] }", 'server = { role = "web", of = "variant", levels = ["four", "five"] }'
    )
    rest = rest.replace("set = { slots = 5 }", 'set = { server = "five" }')
    study.write_text(before + EXTERNAL_ROLE.format(four=four, five=five) + rest)
