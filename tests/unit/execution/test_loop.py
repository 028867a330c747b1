"""The loop and its book-keeping under every outcome of an attempt, and after a crash at every point of one."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from loadbook.core.errors import DataError, LoadbookError
from loadbook.execution import loop
from loadbook.execution.attempt import initial_record
from loadbook.execution.attempt_store import PUBLISHED_STATUSES, AttemptStore
from loadbook.execution.host_state import REMOTE_DISK_FULL
from loadbook.execution.progress import Progress, ignore_event
from loadbook.execution.testbed import Testbed
from loadbook.hosts.inventory import HostsFile
from loadbook.modes.plain import run
from loadbook.store import trial_record
from loadbook.store.ledger import Ledger, read_ledger, trial_states
from loadbook.store.paths import RunPaths
from loadbook.store.trial_record import CapacityRecord, DriverRecord, read_json
from loadbook.study.plan import make_plan, parse_plan
from loadbook.tools import base
from recorded_run import STUDY, copy_recorded_run


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    layout = copy_recorded_run(tmp_path_factory.mktemp("recorded"))
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    return make_plan(parse_plan(read_json(paths.plan_json), "plan.json").study, blocks=2)


def make_testbed(plan):
    """Return the testbed of a run without hosts, for attempts that are scripted."""
    tools = {name: base.load_tool(name) for name in plan.study.tools_of(plan.treatments)}
    return Testbed(
        plan=plan, run="r1", lab="", hosts={}, inventory=HostsFile(hosts={}), drivers=(), placements=(), tools=tools,
        pool=ThreadPoolExecutor(1),
    )  # fmt: skip


class Scripted:
    """An attempt whose end is written down beforehand: "interrupt", or a status, "~" before it for a transient one.

    A reason may follow the status, after a colon; after "ok" a capacity (1/s).
    """

    script: ClassVar[list[str]] = []

    def __init__(self, testbed, planned, attempt, folder):
        self.record = initial_record(testbed, planned, attempt)
        self.folder, self.retry = folder, False

    def run(self):
        word = self.script.pop(0) if self.script else "ok"
        (self.folder / "stdout-driver").write_text(word)
        if word == "interrupt":
            self.record.status = "cancelled"
            raise KeyboardInterrupt
        self.retry = word.startswith("~")
        status, _, reason = word.lstrip("~").partition(":")
        self.record.status, self.record.reason = status, reason or "scripted"  # type: ignore[assignment]
        if status == "ok" and reason:
            self.record.capacity = CapacityRecord(
                within_s=0.02, share=0.99, errors=0.001, metric="latency", capacity_per_s=float(reason)
            )
        driver = DriverRecord(host="driver", argv=["wrk"], rc=0, stdout="stdout-driver", stderr="stdout-driver")
        self.record.drivers = [driver] if self.record.status in PUBLISHED_STATUSES else []
        return self.record


@pytest.mark.parametrize(
    ("remaining_s", "words"),
    [(None, ""), (0.0, "done"), (0.2, "1 s left"), (49.6, "50 s left"), (119.0, "2 min left"),
     (95.0, "2 min left"), (3900.0, "1 h 5 min left")],
)  # fmt: skip
def test_remaining_time_is_printed_in_seconds_or_minutes(remaining_s, words):
    assert Progress("trial-ended", "ok", remaining_s=remaining_s).remaining_text().replace("\u00a0", " ") == words


def run_scripted(plan, raw, script, monkeypatch, on_event=ignore_event):
    monkeypatch.setattr(run, "Attempt", Scripted)
    monkeypatch.setattr(Scripted, "script", list(script))
    paths = RunPaths(raw, raw)
    with Ledger(paths.ledger) as ledger:
        loop.execute_plan(make_testbed(plan), AttemptStore(make_testbed(plan), paths, ledger), on_event)
    return paths


OUTCOMES = st.sampled_from(["ok", "partial", "invalid", "tool_failed", "~lost", "~timeout", "lost", "interrupt"])


@given(st.lists(OUTCOMES, max_size=20))
@settings(max_examples=examples(20), deadline=None)
def test_run_records_one_final_status_per_trial_for_any_outcome(plan, script):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        raw, left = Path(folder, "run"), list(script)
        for _ in range(len(script) + 1):
            try:
                paths = run_scripted(plan, raw, left, patch)
                break
            except (KeyboardInterrupt, LoadbookError):
                left = Scripted.script
        ended = trial_states(read_ledger(paths.ledger))
        assert set(ended) == {t.trial for t in plan.trials}
        assert all(state.final for state in ended.values())
        for trial, state in ended.items():
            failed = paths.failed / f"{trial}-attempt{state.attempt}"
            place = paths.trial(trial) if state.status in PUBLISHED_STATUSES else failed
            assert trial_record.read_trial(place).status == state.status
        attempts = [e for e in read_ledger(paths.ledger) if e["event"] == "started"]
        assert len(attempts) == len(list(paths.raw.glob("trials/*"))) + len(list(paths.raw.glob("failed/*")))
        assert not list(paths.raw.glob("staging/*"))


def test_run_retries_a_transient_failure_and_keeps_the_failed_attempt(plan, tmp_path, monkeypatch):
    paths = run_scripted(plan, tmp_path, ["~lost", "ok", "~timeout", "~timeout", "tool_failed"], monkeypatch)
    ended = trial_states(read_ledger(paths.ledger))
    assert [(s.attempt, s.status) for s in ended.values()][:4] == [
        (2, "ok"), (2, "timeout"), (1, "tool_failed"), (1, "ok"),
    ]  # fmt: skip
    kept = sorted(p.name for p in paths.failed.iterdir())
    assert kept == ["t0001-attempt1", "t0002-attempt1", "t0002-attempt2", "t0003-attempt1"]


def test_run_stops_after_three_lost_trials_and_repeats_them_when_resumed(plan, tmp_path, monkeypatch):
    with pytest.raises(LoadbookError, match="3 trials in a row were lost, the last because scripted") as stopped:
        run_scripted(plan, tmp_path, ["ok", *["~lost"] * 9], monkeypatch)
    assert "then resume: loadbook run recorded" in stopped.value.hint
    paths = run_scripted(plan, tmp_path, [], monkeypatch)
    ended = trial_states(read_ledger(paths.ledger))
    assert [(s.attempt, s.status) for s in ended.values()] == [(1, "ok"), *[(4, "ok")] * 3, *[(1, "ok")] * 4]


def test_run_goes_on_if_a_trial_comes_to_its_end_between_lost_ones(plan, tmp_path, monkeypatch):
    ends = ["lost", "lost", "ok", "lost", "lost", "tool_failed", "timeout", "lost"]
    paths = run_scripted(plan, tmp_path, ends, monkeypatch)
    assert [state.status for state in trial_states(read_ledger(paths.ledger)).values()] == ends


def test_run_stops_after_three_trials_that_found_the_disk_of_a_host_full(plan, tmp_path, monkeypatch):
    full = f"tool_failed:{REMOTE_DISK_FULL}: 1 MB free"
    with pytest.raises(LoadbookError, match=f"the last because {REMOTE_DISK_FULL}"):
        run_scripted(plan, tmp_path, ["ok", *[full] * 3], monkeypatch)
    ended = trial_states(read_ledger(RunPaths(tmp_path, tmp_path).ledger))
    assert [state.final for state in ended.values()] == [True, False, False, False]


def test_resume_with_a_missing_trial_record_names_the_next_step(plan, tmp_path):
    paths, testbed, planned = RunPaths(tmp_path, tmp_path), make_testbed(plan), plan.trials[0]
    with Ledger(paths.ledger) as ledger:
        store = AttemptStore(testbed, paths, ledger)
        store.begin(planned)
        paths.trial(planned.trial).mkdir(parents=True)
        with pytest.raises(DataError, match=r"trials/t0001/trial.json is not there") as error:
            store.recover(planned, 1)
    assert error.value.hint.startswith(f"move {paths.trial('t0001')} away, then resume: t0001 is repeated")


@pytest.mark.fault(2)
@pytest.mark.parametrize("crash", ["accounted", "files", "sealed", "published", "failed published"])
def test_controller_crash_at_any_point_leaves_one_recorded_status_per_trial(plan, tmp_path, crash):
    paths, testbed = RunPaths(tmp_path, tmp_path), make_testbed(plan)
    planned, failed = plan.trials[0], paths.failed / "t0001-attempt1"
    with Ledger(paths.ledger) as ledger:
        _, folder = AttemptStore(testbed, paths, ledger).begin(planned)
    if crash == "accounted":
        folder.rmdir()
    else:
        attempt = Scripted(testbed, planned, 1, folder)
        Scripted.script = ["tool_failed" if crash.startswith("failed") else "ok"]
        record = attempt.run()
        if crash != "files":
            trial_record.seal_trial(folder, record)
        if crash.endswith("published"):
            trial_record.publish_trial(folder, failed if crash.startswith("failed") else paths.trial(planned.trial))
    with Ledger(paths.ledger) as ledger:
        store = AttemptStore(testbed, paths, ledger)
        assert store.unfinished() == [(planned, 1)]
        store.recover(planned, 1)
        assert store.unfinished() == []
        again = planned in store.pending()
    counted = crash in ("sealed", "published")
    assert again is not counted
    state = trial_states(read_ledger(paths.ledger))[planned.trial]
    assert state.status == ("ok" if counted else "tool_failed" if crash.startswith("failed") else "lost")
    place = paths.trial(planned.trial) if counted else failed
    assert trial_record.read_trial(place).attempt == 1
    assert not list(paths.raw.glob("staging/*"))


@pytest.mark.fault(2)
@pytest.mark.parametrize("crash", ["first sealed", "all sealed", "first published", "first ended", "one failed"])
def test_controller_crash_while_a_block_is_recorded_leaves_all_arms_complete_or_none(plan, tmp_path, crash):
    interleaved = replace(plan, study=plan.study.model_copy(update={"execution": "interleaved"}))
    paths, testbed = RunPaths(tmp_path, tmp_path), make_testbed(interleaved)
    arms = [planned for planned in plan.trials if planned.block == 1]
    with Ledger(paths.ledger) as ledger:
        store = AttemptStore(testbed, paths, ledger)
        attempts = [Scripted(testbed, planned, *store.begin(planned)) for planned in arms]
        Scripted.script = ["ok", "tool_failed" if crash == "one failed" else "ok"]
        records = [attempt.run() for attempt in attempts]
        sealed = attempts[:1] if crash == "first sealed" else attempts
        for attempt in sealed:
            trial_record.seal_trial(attempt.folder, attempt.record)
        if crash in ("first published", "first ended"):
            store.end(attempts[0].record, attempts[0].folder, final=True)
        if crash == "first published":
            forget_last_line(paths.ledger)
    with Ledger(paths.ledger) as ledger:
        store = AttemptStore(testbed, paths, ledger)
        for planned, number in store.unfinished():
            store.recover(planned, number)
        pending = [planned for planned in store.pending() if planned.block == 1]
    states = trial_states(read_ledger(paths.ledger))
    if crash == "first sealed":
        assert pending == arms
        assert {states[arm.trial].status for arm in arms} == {"lost"}
    else:
        assert pending == []
        assert [states[arm.trial].status for arm in arms] == [record.status for record in records]
    assert not list(paths.raw.glob("staging/*"))


def forget_last_line(ledger):
    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join(lines[:-1]))


def test_event_of_a_phase_has_the_time_left_and_a_closed_stream_does_not_end_a_trial(plan, clock):
    events: list[Progress] = []
    estimate = loop._TimeEstimate(make_testbed(plan), 8, events.append)
    estimate.on_phase("load")  # no trial runs
    estimate.begin(plan.trials[:2])
    clock.turn(plan.trial_s)
    estimate.on_phase("load", 10.0)
    clock.turn(100 * plan.trial_s)
    estimate.on_phase("load", 10.0, plan.trials[1])
    first, second = events
    assert first.remaining_s == pytest.approx(7 * plan.trial_s, abs=0.1)
    assert second.remaining_s == pytest.approx(6 * plan.trial_s, abs=0.1)
    assert (first.trial, second.trial, second.phase_s, second.done) == (None, "t0002", 10.0, 0)

    def closed(event: Progress) -> None:
        raise BrokenPipeError

    estimate.report = closed
    estimate.on_phase("load")
    assert len(events) == 2


def test_capacity_of_a_treatment_is_printed_when_its_search_ends(plan, tmp_path, monkeypatch):
    events: list[Progress] = []
    run_scripted(plan, tmp_path, ["ok:1712.4", "invalid:no rate meets the objective"], monkeypatch, events.append)
    treatment = plan.trials[0].treatment
    assert [event.line() for event in events if event.kind == "note"] == [f"t0001  {treatment}: capacity 1,712/s"]
    assert [event.kind for event in events[:3]] == ["trial-started", "note", "trial-ended"]


def test_time_left_follows_from_the_trials_of_the_last_block(plan, clock):
    estimate = loop._TimeEstimate(make_testbed(plan), 8, ignore_event)
    for each_s, left_s in ((30.0, 4 * 30.0), (10.0, 0.0)):
        block = plan.trials[:4]
        records = [initial_record(make_testbed(plan), planned, 1) for planned in block]
        estimate.begin(block)
        clock.turn(4 * each_s)
        estimate.end(records)
        ended = [estimate.event(planned, "trial-ended", "ok", "ok", 3 - k) for k, planned in enumerate(block)]
        assert [event.remaining_s for event in ended] == pytest.approx([left_s] * 4, abs=0.01)
        assert [event.done for event in ended] == [k + (4 if each_s == 10 else 0) for k in (1, 2, 3, 4)]
    estimate.left = 2
    assert estimate.remaining_s == pytest.approx(20.0, abs=0.01)
