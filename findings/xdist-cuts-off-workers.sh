#!/bin/sh
# pytest-xdist 3.8.0 with execnet 2.1.2: what a worker does after its tests is interrupted after five seconds.
#
# Behaviour: when all tests are done, pytest-xdist ends its workers through execnet, which waits 5 s for a worker's
# main thread and then calls _thread.interrupt_main: KeyboardInterrupt in whatever runs, such as the hook
# pytest_unconfigure, a callback of the garbage collector, or a file that is being written. The result is still
# "passed" with exit code 0, and nothing tells of it. On a busy machine, clean-up that takes 0.5 s otherwise is cut off.
# Session fixtures are safe: they end with the last test. Without xdist, the hook runs to its end.
# Seen: "without xdist: whole, exit code 0; one worker: cut off, exit code 0".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check pytest==9.2.0 pytest-xdist==3.8.0 execnet==2.1.2
cd "$folder"
cat >conftest.py <<'PYTHON'
import os
import time


def pytest_unconfigure(config):
    if os.environ.get("PYTEST_XDIST_WORKER") or config.option.numprocesses is None:
        said = "cut off"
        try:
            for _ in range(80):
                time.sleep(0.1)
            said = "whole"
        finally:
            with open("said", "w") as file:
                file.write(said)
PYTHON
echo 'def test_one(): pass' >test_one.py
run() {
    code=0
    "$folder/venv/bin/python" -m pytest -q test_one.py "$@" >/dev/null 2>&1 || code=$?
    echo "$(cat said), exit code $code"
}
without=$(run)
with=$(run -n 1)
echo "without xdist: $without; one worker: $with"
[ "$without; $with" = "whole, exit code 0; cut off, exit code 0" ]
