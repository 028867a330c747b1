"""The status of an attempt that failed, and answers that are not as the workload expects."""

from __future__ import annotations

import pytest

from loadbook.core.errors import HostError, HostTimeoutError, ToolError, UnreachableError, UsageError
from loadbook.execution.attempt import _status_of, response_problem
from loadbook.store.trial_record import ResponseRecord
from loadbook.study.workload import Workload


@pytest.mark.parametrize(
    ("error", "phase", "status"),
    [
        (ToolError("wrk", "no"), "load", "tool_failed"),
        (HostTimeoutError("web", "late"), "load", "timeout"),
        (UsageError("no", "x"), "load", "invalid"),
        (HostError("web", "no"), "load", "invalid"),
    ],
)
def test_error_of_an_attempt_gives_its_status(error, phase, status):
    assert _status_of(error, phase) == status


def test_only_the_load_itself_can_time_out():
    error = HostTimeoutError("web", "late")
    assert [_status_of(error, phase) for phase in ("start", "load", "stop")] == ["lost", "timeout", "lost"]
    assert _status_of(UnreachableError("web", "gone"), "load") == "lost"


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ({}, None),
        ({"expect_bytes": 5}, None),
        ({"expect_bytes": 6}, "/ answered 200 with 5 bytes, not 200 with 6"),
        ({"expect_status": 404}, "/ answered 200 with 5 bytes, not 404 with 5"),
    ],
)
def test_answer_must_have_the_status_and_size_that_the_workload_expects(expected, problem):
    answer = ResponseRecord(status=200, bytes=5, sha256="0" * 64)
    assert response_problem(Workload(tool="wrk", **expected), answer) == problem
