"""A project with one treatment, a lab with fake load generators on its hosts' PATH, and a server that misbehaves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.ingestion.ingest import ingest
from loadbook.store import trial_record
from loadbook.store.ledger import read_ledger, trial_states
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.trial_record import TrialRecord

STUDY = """
schema = 1
name = "rude"
question = "What becomes of trials that go wrong?"
baseline = "only"
blocks = {blocks}
notebooks = ["run_quality"]

[roles.driver]
[roles.web]
service = "{service}"
{role}

[workload]
path = "/index.html"
duration_s = 1
warmup_s = 0
{load}

[reset]
time_wait_sockets = 1000000
settle_s = 0

[validity]

{gates}

[treatments.only]
"""

# nginx by the study's own file: an error page for the load alone, which says who it is by a header
NGINX = """
daemon off; worker_processes 1; pid nginx.pid; error_log stderr; user root;
events {}
http {
  access_log off;
  client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;
  server {
    listen {{ address }}:{{ port }};
    location = /.loadbook/config-id { return 200 "{{ config_id }}"; }
    location / { if ($http_x_load) { return 500; } return 200 "hello"; }
  }
}
"""
HEADER = 'headers = { X-Load = "1" }'

SERVICE = """
name = "rude"
about = "a page of five bytes that loads with a header do not get"
binary = "python3"
package = "python3"
[version]
argv = ["python3", "-V"]
pattern = 'Python ([0-9.]+)'
[files]
"serve.py" = "serve.py.j2"
[commands]
start = ["python3", "{{ dir }}/serve.py", "{{ address }}", "{{ port }}", "{{ config_id }}", "{{ mood }}"]
[ready]
path = "/index.html"
[prove]
path = "/id.txt"
[vars.mood]
type = "enum"
values = ["errors", "slow", "truncated", "reset", "longer", "gone"]
default = "errors"
about = "what the load gets"
"""
SERVE = '''
import itertools, os, pathlib, socket, struct, sys, threading, time

ADDRESS, PORT, ID, MOOD = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode(), sys.argv[4]
LAB = pathlib.Path(__file__).parents[4]
gone, turn = threading.Event(), itertools.count()


def reply(status, body, length=None):
    head = "HTTP/1.1 %s\\r\\nContent-Length: %d\\r\\nContent-Type: text/html\\r\\n\\r\\n"
    return (head % (status, len(body) if length is None else length)).encode() + body


def misbehave(conn):
    """Answer one request of the load; False: the connection is over."""
    if MOOD == "errors":
        conn.sendall(reply("500 Internal Server Error", b"sorry"))
        return True
    if MOOD == "longer":
        conn.sendall(reply("200 OK", b"hello" * (1 + 1999 * (next(turn) % 2))))
        return True
    if MOOD == "slow":
        time.sleep(4)
    elif MOOD == "truncated":
        conn.sendall(reply("200 OK", b"he", 100))
    elif MOOD == "reset":
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    else:
        gone.set()
    return False


def talk(conn):
    with conn:
        data = b""
        while True:
            while b"\\r\\n\\r\\n" not in data:
                more = conn.recv(65536)
                if not more:
                    return
                data += more
            head, _, data = data.partition(b"\\r\\n\\r\\n")
            if b"x-load:" in head.lower():
                if not misbehave(conn):
                    return
            else:
                conn.sendall(reply("200 OK", ID if b"/id.txt" in head.split(b"\\r\\n")[0] else b"hello"))
            if b" HTTP/1.0" in head:
                return


def load_is_on():
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text() == "httperf\\n" and LAB in (process / "cwd").readlink().parents:
                return True
        except OSError:
            pass
    return False


def answer(conn):
    try:
        talk(conn)
    except OSError:
        pass


while True:
    with socket.create_server((ADDRESS, PORT), backlog=100) as listener:
        listener.settimeout(0.01)
        while not gone.is_set():
            try:
                conn, _ = listener.accept()
            except TimeoutError:
                continue
            conn.settimeout(10)
            threading.Thread(target=answer, args=(conn,), daemon=True).start()
    while load_is_on():
        time.sleep(0.01)
    gone.clear()
'''


@dataclass
class Ran:
    """A finished run: the states of its trials in the ledger and in trial.json, and its tables."""

    paths: RunPaths

    @property
    def ends(self) -> list[tuple[str, str]]:
        """(status, reason) of every trial in the ledger, in order."""
        return [(str(s.status), str(s.reason)) for _, s in sorted(trial_states(read_ledger(self.paths.ledger)).items())]

    @property
    def folders(self) -> list[Path]:
        """Folders of all trials, including failed ones."""
        return sorted([*self.paths.trials.glob("*"), *self.paths.failed.glob("*")], key=lambda p: p.name)

    @property
    def records(self) -> list[TrialRecord]:
        return [trial_record.read_trial(folder) for folder in self.folders]

    def table(self, name: str) -> list[dict]:
        """Ingest the run and return the rows of one of the five tables."""
        ingest(self.paths)
        return pq.read_table(self.paths.table(name)).to_pylist()

    def gates(self, level: str = "invalid") -> set[str]:
        return {row["name"] for row in self.table("problems") if row["level"] == level}

    def printed(self, name: str) -> str:
        """Return the message with this name in the table of problems."""
        return " ".join(row["message"] for row in self.table("problems") if row["name"] == name)


@dataclass
class MisbehavingLab:
    """A lab, the folder that is first on its hosts' PATH, and a project."""

    lab: Lab
    bin: Path
    layout: Layout

    def fake(self, tool: str, body: str, probe: str = "-v") -> None:
        """Install a fake tool, a shell script `body`, on the PATH; the real tool answers the version probe."""
        real = shutil.which(tool)
        requested = f'[ "$1" != {probe} ] || exec {real} {probe}\n' if real else ""
        path = self.bin / tool
        path.write_text(f"#!/bin/sh\nreal={real}\n{requested}{body}\n")
        path.chmod(0o755)

    def study(
        self, load: str, *, service: str = "rude", role: str = "", blocks: int = 1, gates: str = "driver_cpu = 1"
    ) -> None:
        text = STUDY.format(load=load, service=service, role=role, blocks=blocks, gates=gates)
        (self.layout.studies / "rude.toml").write_text(text)

    def run(self, load: str, **more: object) -> Ran:
        """Write a study with this load, and run it over SSH."""
        self.study(load, **more)  # type: ignore[arg-type]
        return self.again()

    def again(self) -> Ran:
        """Run the study again from its current file."""
        run = run_study(self.layout, RunRequest("rude", self.lab.hosts_file, new=True), on_event=self.events.append)
        return Ran(self.layout.run("rude", run))

    def __post_init__(self) -> None:
        self.events: list = []
        own = self.layout.studies / "services" / "rude"
        own.mkdir(parents=True)
        (own / "service.toml").write_text(SERVICE)
        (own / "serve.py.j2").write_text(SERVE)
        (self.layout.studies / "own.conf").write_text(NGINX)

    @property
    def notes(self) -> list[str]:
        """Notes that the run printed for the user."""
        return [event.message for event in self.events if event.kind == "note"]

    def processes(self, *names: str) -> list[int]:
        """Return the ids of processes with these names that run in the folder of a job."""
        return [pid for pid, name in self._processes() if name in names]

    def _processes(self) -> Iterator[tuple[int, str]]:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                where = str((folder / "cwd").readlink())
                if where.startswith(f"{self.lab.folder}/") and "/jobs/" in where:
                    yield int(folder.name), (folder / "comm").read_text().strip()
            except OSError:
                continue


@contextmanager
def home_for_fakes(folder: Path) -> Iterator[Path]:
    """Put a folder first on the PATH of hosts of labs that are started in this context."""
    (folder / "bin").mkdir(parents=True)
    before = os.environ.get("JMETER_HOME")
    os.environ["JMETER_HOME"] = str(folder)
    try:
        yield folder / "bin"
    finally:
        os.environ.pop("JMETER_HOME")
        if before is not None:
            os.environ["JMETER_HOME"] = before
