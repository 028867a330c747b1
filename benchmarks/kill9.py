"""kill -9 of `loadbook run` at random instants; the command is repeated until the study is complete.

Checks that the plan is unchanged, that no published trial is lost, repeated or changed, that every trial has exactly
one final state, and that 35 s after the last kill no process of loadbook runs on the hosts.

    python benchmarks/kill9.py --kills 20 --execution interleaved
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from loadbook.store import trial_record
from loadbook.store.ledger import read_ledger, trial_states
from loadbook.store.paths import Layout
from project import lab_project

STUDY = "aa"
QUIET_S = 35.0
# seconds after its start within which a controller is killed: a few trials, or two blocks
LATEST_S = {"plain": 12.0, "interleaved": 25.0}


def start(layout: Layout, hosts: Path) -> subprocess.Popen[bytes]:
    """Start the command as a user would."""
    command = [str(Path(sys.executable).with_name("loadbook")), "run", STUDY, "--hosts", str(hosts)]
    return subprocess.Popen(command, env=os.environ | {"LOADBOOK_HOME": str(layout.root)}, stderr=subprocess.DEVNULL)


def published(layout: Layout) -> dict[str, str]:
    """Return {path: sha256} of every file of every published trial."""
    files = layout.study_raw(STUDY).glob("*/trials/*/**/*")
    return {str(f): trial_record.sha256_file(f) for f in files if f.is_file()}


def left_running(lab: Path) -> list[str]:
    """Return the command lines of processes that run in the folder of a job in the lab."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            where = str((folder / "cwd").readlink())
            if where.startswith(f"{lab}/") and "/jobs/" in where:
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def kill_many(layout: Layout, hosts: Path, kills: int, latest_s: float, draw: random.Random) -> list[str]:
    """Kill this number of controllers and return the problems found in between."""
    problems: list[str] = []
    before: dict[str, str] = {}
    for number in range(1, kills + 1):
        controller = start(layout, hosts)
        after_s = draw.uniform(0.3, latest_s)
        try:
            code = controller.wait(after_s)
            print(f"kill {number}: the run was complete before {after_s:.1f} s (exit {code})")
        except subprocess.TimeoutExpired:
            controller.kill()
            controller.wait()
        now = published(layout)
        problems += [f"kill {number}: {f} changed or vanished" for f, sha in before.items() if now.get(f) != sha]
        before = now
        print(f"kill {number} after {after_s:.1f} s: {len(layout.runs(STUDY))} runs, {len(now)} files published")
    return problems


def check_runs(layout: Layout) -> list[str]:
    """Return the problems of the runs after all are complete."""
    problems = []
    for run in layout.runs(STUDY):
        paths = layout.run(STUDY, run)
        planned = {t["trial"]: t["treatment"] for t in trial_record.read_json(paths.plan_json)["trials"]}
        records = {p.name: trial_record.read_trial(p) for p in paths.trials.iterdir()}
        entries = read_ledger(paths.ledger)
        finals = Counter(e["trial"] for e in entries if e["event"] == "ended" and e["final"])
        if set(records) != set(planned):
            problems.append(f"{run}: published {sorted(records)} of {sorted(planned)}")
        problems += [f"{run}: {t} has {n} final states" for t, n in finals.items() if n != 1]
        problems += [f"{run}: {t} ended as {s.status}" for t, s in trial_states(entries).items() if s.status != "ok"]
        problems += [f"{run}: {t} is {r.treatment}" for t, r in records.items() if r.treatment != planned[t]]
        problems += [
            f"{run}: {t}: changed files" for t, r in records.items() if trial_record.changed_files(paths.trial(t), r)
        ]
        print(f"{run}: {len(records)} trials, {sum(e['event'] == 'run-resumed' for e in entries)} times resumed")
    return problems


def main() -> None:
    """Kill controllers, complete the study, check it; exit with 1 and a line per problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--execution", choices=("plain", "interleaved"), default="plain")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    with (
        tempfile.TemporaryDirectory(prefix="loadbook-bench-") as folder,
        lab_project(Path(folder), plain=given.execution == "plain") as (layout, hosts),
    ):
        problems = kill_many(layout, hosts, given.kills, LATEST_S[given.execution], random.Random(given.seed))
        time.sleep(QUIET_S)
        problems += [f"{QUIET_S:g} s after the last kill: {line}" for line in left_running(hosts.parent)]
        code = start(layout, hosts).wait()
        problems += [f"the last command ended with {code}"] if code else []
        problems += check_runs(layout)
        problems += [f"after the run: {line}" for line in left_running(hosts.parent)]
    print("\n".join(problems) or f"{given.kills} kills: nothing lost, repeated, changed or left running")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
