#!/bin/sh
# vegeta 12.13.0: with -lazy, the end of the targets stands among the results as failed requests.
#
# Behaviour: an attack with `-lazy` ends after the last line of its targets file, as the manual says. Until then each
# further place in the schedule gives a result with status 0, the error "no targets to attack", and no method or URL:
# `vegeta report` counts it as a request that failed, and its time of a few microseconds as a latency. A hundred
# requests that all succeed have a success ratio below 100 % and a least latency that no server can reach. How many
# there are depends on the rate and the machine.
# Seen: "100 targets, 100 answered with 200: 102 requests by vegeta, success 98.04 %, least latency 5 us".
set -eu
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
GOPATH="$folder/go" GOBIN="$folder" go install github.com/tsenart/vegeta/v12@v12.13.0
cat >"$folder/run.py" <<'PYTHON'
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

folder, answered = Path(sys.argv[1]), []


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        answered.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
targets = folder / "targets.txt"
targets.write_text(f"GET http://127.0.0.1:{server.server_port}/\n" * 100)
vegeta, results = str(folder / "vegeta"), str(folder / "results.gob")
attack = [vegeta, "attack", f"-targets={targets}", "-lazy", "-rate=200/1s", "-duration=5s", f"-output={results}"]
subprocess.run(attack, check=True)
told = subprocess.run([vegeta, "report", "-type=json", results], check=True, capture_output=True).stdout
report = json.loads(told)
print(f"100 targets, {len(answered)} answered with 200: {report['requests']} requests by vegeta,", end=" ")
print(f"success {100 * report['success']:.2f} %, least latency {report['latencies']['min'] / 1000:.0f} us")
added = report["requests"] - len(answered)
sys.exit(not (len(answered) == 100 and added > 0 and report["success"] < 1 and "no targets to attack" in report["errors"]))
PYTHON
python3 "$folder/run.py" "$folder"
