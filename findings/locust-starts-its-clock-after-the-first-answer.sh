#!/bin/sh
# Locust 2.47.0: its time begins when the first request has ended, so that its rate is too high.
#
# Behaviour: `start_time` of the statistics (`--json`) is the time at which the first request was recorded, thus its
# end; that request is counted all the same. The total rate, `StatsEntry.total_rps`, is the number of requests by the
# time from there to the last end. One user whose requests take a second each cannot make more than one a second, and
# Locust says more. The error is one response time of the whole run: 3 to 11 % in runs of some seconds.
# Seen: "one user, responses of 1.0 s: 1.20 requests a second by Locust; its time begins 1.0 s after the first request".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check locust==2.47.0
cat >"$folder/load.py" <<'PYTHON'
from locust import HttpUser, task


class User(HttpUser):
    @task
    def get(self):
        self.client.get("/")
PYTHON
cat >"$folder/run.py" <<'PYTHON'
import json
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

folder, begun = Path(sys.argv[1]), []


class Slow(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        begun.append(time.time())
        time.sleep(1.0)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
threading.Thread(target=server.serve_forever, daemon=True).start()
options = ["--headless", "-u", "1", "-r", "1", "-t", "6s", "--json"]
options += ["-f", str(folder / "load.py"), "-H", f"http://127.0.0.1:{server.server_port}"]
told = subprocess.run([sys.executable, "-m", "locust", *options], capture_output=True, text=True, cwd=folder).stdout
entry = json.loads(told[told.index("[") :])[0]
late = entry["start_time"] - begun[0]
rate = entry["num_requests"] / (entry["last_request_timestamp"] - entry["start_time"])
print(f"one user, responses of 1.0 s: {rate:.2f} requests a second by Locust; ", end="")
print(f"its time begins {late:.1f} s after the first request")
sys.exit(not (rate > 1.1 and 0.9 < late < 1.5))
PYTHON
"$folder/venv/bin/python" "$folder/run.py" "$folder"
