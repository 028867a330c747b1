"""A host is waited for until it is at rest, or its limit is over: minutes that pass on the clock of the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from loadbook.execution.host_state import REST_POLL_S, wait_for_rest
from loadbook.hosts.host import CommandResult, Host
from loadbook.study.limits import ResetSettings
from turned_clock import TurnedClock

SETTLE_S = 0.5
RULE = ResetSettings(wait_s=120, settle_s=SETTLE_S, time_wait_sockets=1000)


class Quieting:
    """A host whose sockets in TIME-WAIT depend on the time; only what is asked of it here."""

    alias, live = "web", True

    def __init__(self, sockets: Callable[[float], int], clock: TurnedClock) -> None:
        self.sockets, self.clock, self.began = sockets, clock, clock.monotonic()

    def script(self, *given: Any, **options: Any) -> CommandResult:
        sockets = self.sockets(self.clock.monotonic() - self.began)
        return CommandResult(0, f"time_wait {sockets}\nload1 0.1\nopen_files 9\nboot_id x\n".encode(), b"")


def waited(sockets: Callable[[float], int], clock: TurnedClock) -> tuple[float, float]:
    state = wait_for_rest(cast(Host, Quieting(sockets, clock)), RULE).state
    return state["waited_s"], state["at_rest"]


def test_host_at_rest_is_given_its_time_to_settle(clock: TurnedClock) -> None:
    waited_s, at_rest = waited(lambda passed_s: 1000, clock)
    assert (waited_s, at_rest) == (pytest.approx(SETTLE_S, abs=0.01), 1.0)
    assert clock.slept == [SETTLE_S]


def test_host_with_sockets_in_time_wait_is_asked_until_they_are_gone(clock: TurnedClock) -> None:
    waited_s, at_rest = waited(lambda passed_s: 28_000 if passed_s < 60 else 0, clock)
    assert (waited_s, at_rest) == (pytest.approx(60, abs=REST_POLL_S + 0.1), 1.0)
    assert set(clock.slept[1:]) == {REST_POLL_S}


def test_host_that_never_rests_is_no_longer_waited_for_after_the_limit(clock: TurnedClock) -> None:
    waited_s, at_rest = waited(lambda passed_s: 1001, clock)
    assert (waited_s, at_rest) == (pytest.approx(RULE.wait_s, abs=REST_POLL_S + 0.1), 0.0)


class Shared(Quieting):
    """A host at rest on whose machine another run is."""

    def script(self, *given: Any, **options: Any) -> CommandResult:
        watch = ["/bin/sh", "/w/bin/job-1.sh", "watch", "s", "120"]
        lock = ["/tmp/lock", "id", "bob@pc", "7", "ns:1", "lb", "run-1", "0", ""]
        other = "\t".join(["other_run", "bob", "60", *watch, *lock]) + "\n"
        return CommandResult(0, super().script().stdout + other.encode(), b"")


def test_state_of_a_host_has_the_other_runs_on_its_machine(clock: TurnedClock) -> None:
    host = Shared(lambda passed_s: 0, clock)
    state = wait_for_rest(cast(Host, host), RULE)
    assert [(run.user, run.run) for run in state.other_runs] == [("bob", "run-1")]
    assert state.boot_id == "x" and "other_run" not in state.state
    host.live = False  # a replay's host lists the recorded run itself
    assert not wait_for_rest(cast(Host, host), RULE).other_runs
