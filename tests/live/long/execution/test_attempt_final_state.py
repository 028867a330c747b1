"""Whatever call to a host fails and however, every attempt ends in exactly one recorded state, the one of its fault."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loadbook.core.errors import CommandError, HostTimeoutError, LostError, ToolError, UnreachableError
from loadbook.execution import testbed
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.store.ledger import read_ledger
from loadbook.store.trial_record import read_json
from recorded_run import STUDY, copy_recorded_run, run_of

CALLS = ("run", "script", "put", "get", "fetch", "exists", "start", "state", "wait", "stop", "http_get", "clock")
# what is raised -> the states that an attempt may end in for it
FAULTS: dict[str, tuple[Callable[[str], BaseException], set[str]]] = {
    "lost": (lambda alias: LostError(alias, "injected"), {"lost"}),
    "unreachable": (lambda alias: UnreachableError(alias, "injected"), {"lost"}),
    "timeout": (lambda alias: HostTimeoutError(alias, "injected"), {"lost", "timeout"}),
    "refused": (lambda alias: CommandError(alias, "injected"), {"invalid"}),
    "tool": (lambda alias: ToolError("injected"), {"tool_failed"}),
    "interrupt": (lambda alias: KeyboardInterrupt(), {"cancelled"}),
}
# The server under test may answer late, or a moment later, while its host is well: it is asked again, or is not valid.
ASKING = {"http_get", "run"}
NO_ANSWER = {"unreachable", "timeout", "refused"}


class Faulty:
    """A host that raises at the n-th call of one kind in a trial, counted over all hosts."""

    left, call, fault, stopping, raised = 0, "", "", False, ""
    lock = threading.Lock()

    def __init__(self, host: Any) -> None:
        self._host, self._in_trial = host, False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._host, name)
        return (lambda *args, **named: self._call(name, found, *args, **named)) if name in CALLS else found

    def set_trial(self, planned: Any) -> None:
        self._in_trial = planned is not None
        self._host.set_trial(planned)

    def _call(self, name: str, found: Callable[..., Any], *args: Any, **named: Any) -> Any:
        with Faulty.lock:
            counts = self._in_trial and name == Faulty.call
            Faulty.left -= counts
            due = counts and Faulty.left == 0
        if due:
            Faulty.raised = "stop" if Faulty.stopping else name
            raise FAULTS[Faulty.fault][0](self._host.alias)
        return found(*args, **named)


@pytest.fixture(scope="module", autouse=True)
def faulty():
    ends = testbed.Testbed.run_within

    def in_time(*args: Any) -> None:
        Faulty.stopping = True
        try:
            ends(*args)
        finally:
            Faulty.stopping = False

    record_host = testbed.record_host
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testbed, "record_host", lambda host, run: Faulty(record_host(host, run)))
        patch.setattr(testbed.Testbed, "run_within", in_time)
        yield


def allowed(fault: str, call: str) -> set[str]:
    return FAULTS[fault][1] | ({"invalid"} if fault in NO_ANSWER and call in ASKING else set())


@given(st.integers(1, 12), st.sampled_from(CALLS), st.sampled_from(sorted(FAULTS)))
@example(1, "http_get", "timeout")
@example(2, "stop", "tool")
@settings(max_examples=8, deadline=None)
def test_attempt_with_any_host_failure_ends_in_one_matching_status(number, call, fault):
    Faulty.left, Faulty.call, Faulty.fault, Faulty.raised = number, call, fault, ""
    with tempfile.TemporaryDirectory() as folder:
        layout = copy_recorded_run(Path(folder))
        hosts, before = run_of(layout) / "hosts.toml", layout.runs(STUDY)
        try:
            run_study(layout, RunRequest(STUDY, hosts, blocks=1, new=True))
        except KeyboardInterrupt:
            assert fault == "interrupt"
            run_study(layout, RunRequest(STUDY, hosts))
        (run,) = set(layout.runs(STUDY)) - set(before)
        paths = layout.run(STUDY, run)
        ended = [e for e in read_ledger(paths.ledger) if e["event"] == "ended"]
        begun = [e for e in read_ledger(paths.ledger) if e["event"] == "started"]
        assert [(e["trial"], e["attempt"]) for e in begun] == [(e["trial"], e["attempt"]) for e in ended]
        assert {e["trial"] for e in ended if e["final"]} == {t["trial"] for t in read_json(paths.plan_json)["trials"]}
        named = {e["status"] for e in ended} - {"ok"}
        assert named <= allowed(fault, call)
        # what fails while things are being stopped changes nothing that was measured, but for an interruption
        must_show = Faulty.raised not in ("", "stop") and not (fault in NO_ANSWER and call in ASKING)
        assert named or not must_show
