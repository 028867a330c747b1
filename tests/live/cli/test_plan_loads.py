"""`loadbook plan` refuses a load that its tool cannot make, and names the tools that can, before any host is asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

STUDY = """
schema = 1
name = "loads"
question = "Which loads can a tool make?"
baseline = "one"
roles.driver = {{}}
roles.web = {{ external = "192.0.2.7:8080" }}
[workload]
{workload}
[treatments.one]
[treatments.two]
same_as = "one"
check = "aa"
"""


def plan(folder: Path, workload: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "studies").mkdir(exist_ok=True)
    (folder / "studies" / "loads.toml").write_text(STUDY.format(workload=workload))
    call = [sys.executable, "-c", "from loadbook.cli import main; main()", "plan", "loads", *options]
    env = os.environ | {"LOADBOOK_HOME": str(folder)}
    return subprocess.run(call, capture_output=True, text=True, env=env, timeout=60)


@pytest.mark.parametrize(
    ("workload", "says", "able", "unable"),
    [
        ('tool = "wrk"\nrequests = 500', "wrk cannot end after a number", {"ab", "h2load", "weighttp"}, {"wrk"}),
        ('tool = "ab"\nthink_time_s = 0.1', "cannot make its connections wait", {"wrk"}, {"ab", "h2load"}),
        ('tool = "wrk"\nmodel = "open"\nrate_per_s = 50', "cannot make open-loop", {"httperf", "wrk2"}, {"ab", "wrk"}),
        ('tool = "httperf"', "cannot make closed-loop loads", {"ab", "h2load", "wrk"}, {"httperf", "weighttp"}),
        ('tool = "weighttp"\nrequests = 500\nscheme = "https"', "does not speak https", {"ab"}, {"weighttp", "wrk"}),
        ('tool = "ab"\nthreads = 2', "one thread", {"wrk", "h2load"}, {"ab"}),
    ],
)
def test_plan_refusal_names_tools_that_can_generate_the_load(
    tmp_path: Path, workload: str, says: str, able: set[str], unable: set[str]
) -> None:
    done = plan(tmp_path, workload)
    assert done.returncode == 2 and says in done.stderr, done.stderr
    named = set(done.stderr.rpartition("tools that can: ")[2].replace(",", " ").split())
    assert able <= named and not unable & named


def test_plan_of_a_request_count_uses_the_expected_duration(tmp_path: Path) -> None:
    done = plan(tmp_path, 'tool = "ab"\nrequests = 20_000\nduration_s = 30')
    assert done.returncode == 0 and "20,000 requests, expected to be a 30 s load" in done.stdout, done.stderr
    hours = json.loads(plan(tmp_path, 'tool = "ab"\nrequests = 20_000\nduration_s = 30', "--json").stdout)["estimate"]
    assert 20 * 30 / 3600 < hours["hours"] < 20 * 40 / 3600
