"""A server that is frozen in mid-trial, and one that is not, over SSH under wrk; alone and in interleaved blocks."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from controller_processes import at_work_in, jobs_left
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.store.paths import Layout
from loadbook.store.trial_record import read_trial
from waiting import wait_until

if TYPE_CHECKING:
    from loadbook.hosts.lab import Lab
    from misbehaving_tools import MisbehavingLab, Ran


WRK = 'tool = "wrk"\nconnections = 10\n'
FROZEN_S = 1.5


def freeze_server(misbehaving_lab: MisbehavingLab) -> None:
    """Stop the test's own nginx, by its process ids, a second after the load began."""
    wait_until(lambda: (misbehaving_lab.bin / "loading").exists())
    time.sleep(1.0)
    pids = misbehaving_lab.processes("nginx")
    assert pids
    for sign, pause_s in ((signal.SIGSTOP, FROZEN_S), (signal.SIGCONT, 0.0)):
        for pid in pids:
            os.kill(pid, sign)
        time.sleep(pause_s)


def run_one_trial(misbehaving_lab: MisbehavingLab) -> Ran:
    # of the calls of wrk (its version, the warm-up, the measurement) only the last lasts 4 s
    misbehaving_lab.fake("wrk", f'case "$*" in *-d4s*) touch {misbehaving_lab.bin}/loading;; esac; exec "$real" "$@"')
    misbehaving_lab.study(WRK, service="nginx")
    file = misbehaving_lab.layout.studies / "rude.toml"
    file.write_text(file.read_text().replace("duration_s = 1\n", "duration_s = 4\n"))
    ran = misbehaving_lab.again()
    assert [status for status, _ in ran.ends] == ["ok"]
    return ran


def test_server_that_was_stopped_for_a_while_makes_its_trial_invalid(
    misbehaving_lab: MisbehavingLab, record_property
) -> None:
    thread = threading.Thread(target=freeze_server, args=(misbehaving_lab,))
    thread.start()
    ran = run_one_trial(misbehaving_lab)
    thread.join(60)
    record_property("seen", ran.printed("stall"))
    assert "stall" in ran.gates("invalid")
    assert not any(row["valid"] for row in ran.table("trials"))


def test_server_that_answers_all_the_time_is_not_reported_as_stalled(misbehaving_lab: MisbehavingLab) -> None:
    ran = run_one_trial(misbehaving_lab)
    assert ran.printed("stall") == ""


INTERLEAVED = """
include = "aa.toml"
name = "frozen"
blocks = 1
execution = "interleaved"

[workload]
duration_s = {duration_s}
warmup_s = 0.1

[reset]
time_wait_sockets = 1000000

[validity]
driver_cpu = 1.0
"""
# seconds for which the server of each further treatment is stopped
STOPS_S = (0.5, 1.5, 3.0)


def freeze_arms(lab: Lab, stops_s: dict[int, float]) -> None:
    """Stop the servers of some arms, by their process ids, in mid-block, all at the same time."""
    wait_until(lambda: any("interleave.pl schedule" in line for line in jobs_left(lab)))
    time.sleep(0.8)
    masters = {pid: line for pid, line in at_work_in(lab).items() if "nginx: master" in line}
    pids = {arm: [pid for pid, line in masters.items() if f"t000{arm + 1}-a1" in line] for arm in stops_s}
    for own in pids.values():
        own += [int(word) for pid in own for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    assert all(len(own) == 2 for own in pids.values())
    begun = time.monotonic()
    for own in pids.values():
        for pid in own:
            os.kill(pid, signal.SIGSTOP)
    for arm, stop_s in sorted(stops_s.items(), key=lambda pair: pair[1]):
        time.sleep(max(0.0, begun + stop_s - time.monotonic()))
        for pid in pids[arm]:
            os.kill(pid, signal.SIGCONT)


def stalls_of_block(layout: Layout, run: str) -> dict[str, list[str]]:
    """Return trial -> levels of its stalls."""
    paths = layout.run("frozen", run)
    ingest(paths)
    levels: dict[str, list[str]] = {row["trial"]: [] for row in pq.read_table(paths.table("trials")).to_pylist()}
    for row in pq.read_table(paths.table("problems")).to_pylist():
        if row["name"] == "stall":
            levels[row["trial"]].append(row["level"])
    return levels


def test_arms_whose_server_was_stopped_in_mid_block_are_found_and_no_other(lab: Lab, layout: Layout) -> None:
    arms = "".join(f'[treatments.stop-{k}]\nsame_as = "baseline"\n' for k in range(len(STOPS_S)))
    text = INTERLEAVED.format(duration_s=1) + arms
    (layout.studies / "frozen.toml").write_text(text)
    # in the plan's order: the arm of a stop is drawn, too
    thread = threading.Thread(target=freeze_arms, args=(lab, {k + 2: stop_s for k, stop_s in enumerate(STOPS_S)}))
    thread.start()
    run = run_study(layout, RunRequest("frozen", lab.hosts_file))
    thread.join(60)
    never_1, never_2, short, *long = stalls_of_block(layout, run).values()
    assert (never_1, never_2, long) == ([], [], [["invalid"], ["invalid"]])
    assert short in (["doubt"], ["invalid"])
    folders = sorted(layout.run("frozen", run).trials.iterdir())
    assert all(1.0 <= read_trial(folder).interleaved.active_s < 1.8 for folder in folders)


def test_slow_arms_with_few_long_slices_are_not_reported_as_stalled(lab: Lab, layout: Layout) -> None:
    """A mean latency of some 27 ms asks for slices of half a second, of which a trial of 1 s has two or three."""
    text = INTERLEAVED.format(duration_s=1) + "[roles.web.vars]\nset_steps = 10000\n"
    (layout.studies / "frozen.toml").write_text(text)
    run = run_study(layout, RunRequest("frozen", lab.hosts_file))
    assert list(stalls_of_block(layout, run).values()) == [[], []]
