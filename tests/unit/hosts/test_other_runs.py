"""Other runs on a machine: told by the arguments of their watchers, which another user may have made up."""

from __future__ import annotations

import os

from loadbook.hosts import other_runs
from loadbook.hosts.jobs import LockRequest
from loadbook.hosts.other_runs import parse_other_runs, without_other_runs

LAB = "/home/bob/my clone/.cache/lab"
REQUEST = ["7e9", "bob@here", "4242", "c2:77", "lb", "20260101-000000", "0"]


def line(lock: str = f"{LAB}/web/work/host.lock", request: list[str] = REQUEST, user="bob", age="200") -> str:
    watch = ["/bin/sh", f"{LAB}/web/work/bin/job-4a7e6386d387.sh", "watch", "20260101-000000-a9", "120"]
    return "\t".join(["other_run", user, age, *watch, lock, *request, ""]) + "\n"


def described(output: str) -> list[str]:
    return [run.description.replace("\xa0", " ") for run in parse_other_runs(output)]


def test_other_run_is_named_once_with_user_folder_and_age():
    both = line() + line(f"{LAB}/driver/work/host.lock", age="201")
    assert described(both) == [f"run 20260101-000000 of lb (user bob, process 4242 of bob@here, lab {LAB}, for 3 min)"]
    assert described(line("/tmp/loadbook-host.lock")) == [
        "run 20260101-000000 of lb (user bob, process 4242 of bob@here, for 3 min)"
    ]


def test_run_of_this_process_is_no_other_run(monkeypatch):
    own = LockRequest("lb", "20260101-000000").script_args()[1:]
    assert parse_other_runs(line(request=own)) == []
    monkeypatch.setattr(other_runs.os, "getpid", lambda: os.getppid())
    assert len(parse_other_runs(line(request=own))) == 1


def test_arguments_that_another_user_made_up_are_only_text():
    hostile = ["x", "root@here", "4242", "c2:77", "\x1b[2Jlb\u202e", "y" * 999, "0"]
    (run,) = parse_other_runs(line(request=hostile))
    assert (run.user, run.study, len(run.run)) == ("bob", "?[2Jlb?", 200)
    for broken in ("other_run", "other_run\t\t\t", line(request=["x", "y", "pid"]), line(age="z"), line()[:90]):
        assert parse_other_runs(broken) == []
    assert parse_other_runs(line(lock="host.lock"))[0].lab == ""


def test_other_lines_of_a_script_are_kept():
    hostile = line(request=["x", "root@here", "4242", "c2:77", "lb\rload1 9", "\u2028load1 9\x85load1 9", "0"])
    assert without_other_runs(f"load1 0.1\n{hostile}boot_id x\n") == "load1 0.1\nboot_id x\n"
    assert "\n" not in parse_other_runs(hostile)[0].description
    assert parse_other_runs("load1 0.1\nboot_id x\n") == []
