"""What job.sh is told of a job, and what it says of jobs and of the owners of a machine's lock."""

from __future__ import annotations

import os

import pytest

from loadbook.core.errors import UsageError
from loadbook.hosts.host import Job
from loadbook.hosts.jobs import (
    InUseError,
    LockOwner,
    LockRequest,
    launch_text,
    launcher_script,
    lock_error,
    parse_owners,
    parse_state,
    pid_namespace_id,
    prepare_text,
    process_start_ticks,
)

OWNER = "95 held 1a2b me@here 4711 {} noise 20261120-100000"


def test_job_folder_holds_steps_start_time_and_session():
    steps = (("sh", "-c", "warm up"), ("wrk", "http://x/"))
    lines = prepare_text(Job("a", steps, 60, last_step_at=12.34567, ends_with_session=True), "s1").splitlines()
    assert lines[0] == "mkdir -p jobs && mkdir jobs/a 2>/dev/null || exit 9"
    assert lines[-2:] == ["echo 12.346 >jobs/a/at.2 || exit 1", "echo s1 >jobs/a/session || exit 1"]
    assert [line[-24:] for line in prepare_text(Job("a", steps, 60), "s1").splitlines()[2::2]] == [
        " >jobs/a/cmd.1 || exit 1",
        " >jobs/a/cmd.2 || exit 1",
    ]
    with pytest.raises(UsageError):
        prepare_text(Job("../a", steps, 60), "s1")


def test_lease_of_a_job_is_rounded_up_to_whole_seconds():
    assert f"/bin/sh {launcher_script()[0]} run jobs/a 13 " in launch_text(Job("a", (("true",),), 12.2))


@pytest.mark.parametrize(
    ("output", "state"),
    [(b"17 - 1\n", (17, None, True)), (b"17 143 0\n", (17, 143, False)), (b"- - 0\nmore", (None, None, False))],
)
def test_state_of_a_job_is_read_from_its_process_and_exit_code(output, state):
    found = parse_state(output)
    assert (found.pid, found.rc, found.running) == state


def test_lock_request_says_who_asks_and_for_how_long_it_has_run(clock):
    request = LockRequest("my study", "r" * 150, evict_id="x")
    clock.turn(75.9)
    file, own_id, user, pid, identity, study, run, held_s = request.script_args()
    assert (file, own_id, pid, study, run, held_s) == (
        "/tmp/loadbook-host.lock", request.id, str(os.getpid()), "my_study", "r" * 100, "75",
    )  # fmt: skip
    assert "@" in user and identity == f"{pid_namespace_id()}:{process_start_ticks(os.getpid())}"


def test_owners_of_a_lock_are_read_and_what_is_no_owner_is_skipped():
    lines = [OWNER.format("ns:1"), OWNER.format("ns:1").replace("held", "ending").replace("95", "-3"), "x y", "a" * 8]
    held, ending = parse_owners("\n".join([*lines, OWNER.format("ns:1").replace("4711", "me")]).encode())
    assert (held.age_s, held.ending, held.id, held.user, held.pid) == (95.0, False, "1a2b", "me@here", 4711)
    assert (held.study, held.run) == ("noise", "20261120-100000")
    assert (ending.age_s, ending.ending) == (-3.0, True)
    assert held.description.replace("\u00a0", " ").startswith(
        "me@here (process 4711), run 20261120-100000 of noise, for 9"
    )


@pytest.mark.parametrize(
    ("identity", "dead"),
    [
        (f"{pid_namespace_id()}:{process_start_ticks(os.getpid())}", False),
        (f"{pid_namespace_id()}:1", True),
        ("elsewhere:1", False),
    ],
    ids=["runs", "ended", "elsewhere"],
)
def test_owner_is_dead_only_if_its_process_on_this_machine_has_ended(identity, dead):
    assert LockOwner(1.0, False, "1a2b", "me@here", os.getpid(), identity, "noise", "r1").is_dead is dead


def test_busy_lock_names_its_owner_and_how_to_end_it():
    busy = lock_error("web1", f"busy {OWNER.format('ns:1')}\n")
    assert isinstance(busy, InUseError) and busy.transient
    assert busy.owner.pid == 4711 and "--break-lock 1a2b" in busy.hint
    for printed, reason in (("failed no folder", "no folder"), ("busy", "busy"), (OWNER, OWNER.partition(" ")[2])):
        other = lock_error("web1", printed)
        assert not isinstance(other, InUseError) and f"its lock cannot be taken: {reason}" in other.message
