#!/bin/sh
# statsmodels 0.15.0: every call of multipletests runs a full garbage collection.
#
# Behaviour: `statsmodels.stats.multitest.multipletests` calls gc.collect() for method="holm" (and others), whatever
# the number of p values. It adjusts three p values in microseconds, then visits every object of the process: 50 ms
# after importing pandas and scipy, 300 ms in a process with some million objects. A simulation of 62 studies spent
# 5.1 of 6.2 seconds there.
# Seen: "full collections in 10 calls: 10".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check statsmodels==0.15.0 scipy==1.17.1 numpy==2.4.6 pandas==3.1.1
"$folder/venv/bin/python" - <<'PYTHON'
import gc
import sys

from statsmodels.stats.multitest import multipletests

full = []
gc.disable()  # only what is asked for explicitly counts
gc.callbacks.append(lambda phase, info: phase == "start" and info["generation"] == 2 and full.append(1))
for _ in range(10):
    multipletests([0.01, 0.02, 0.03], method="holm")
print(f"full collections in 10 calls: {len(full)}")
sys.exit(len(full) != 10)
PYTHON
