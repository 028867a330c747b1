"""job.sh by itself, under every shell that a host may have as /bin/sh."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from job_sh import SHELLS, prepare, start, with_job_sh
from waiting import PATIENCE_S, wait_until


@pytest.fixture(params=SHELLS)
def shell(request) -> list[str]:
    return SHELLS[request.param]


@pytest.fixture
def work(tmp_path) -> Path:
    return with_job_sh(tmp_path)


def call(shell: list[str], work: Path, *args: str) -> str:
    done = subprocess.run([*shell, "job.sh", *args], cwd=work, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def group_is_gone(pid: int) -> bool:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if group == str(pid) and state != "Z":
            return False
    return True


def test_job_steps_run_in_order_and_record_exit_codes(shell, work):
    folder = prepare(
        work, "a", "exec printf 'out\\n'", "echo err >&2; exit 3", "kill -9 $(cat step)", "exec no-such-tool"
    )
    leader = start(shell, work, "a")
    leader.wait(PATIENCE_S)
    assert [(folder / f"rc.{k}").read_text().strip() for k in (1, 2, 3, 4)] == ["0", "3", "137", "127"]
    assert (folder / "rc").read_text().strip() == "127"
    assert (folder / "stdout.1").read_bytes() == b"out\n"
    assert (folder / "stderr.2").read_bytes() == b"err\n"
    times = [float(t) for k in (1, 2, 3, 4) for t in (folder / f"times.{k}").read_text().split()]
    assert times == sorted(times)
    assert call(shell, work, "state", "jobs/a").split() == [str(leader.pid), "127", "0"]
    wait_until(lambda: group_is_gone(leader.pid))


def test_job_end_leaves_no_process_of_its_group(shell, work):
    prepare(work, "a", "sleep 100 & sleep 101 & exit 0")
    leader = start(shell, work, "a")
    leader.wait(PATIENCE_S)
    wait_until(lambda: group_is_gone(leader.pid))


def test_job_is_ended_when_its_lease_expires(shell, work):
    folder = prepare(work, "a", "sleep 100", "echo never")
    leader = start(shell, work, "a", lease_s=1)
    leader.wait(PATIENCE_S)
    assert (folder / "rc").read_text().strip() == "143"
    assert not (folder / "rc.2").exists()
    wait_until(lambda: group_is_gone(leader.pid))


def test_stopping_a_job_kills_processes_that_ignore_sigterm(shell, work):
    folder = prepare(work, "a", "trap '' TERM; while :; do sleep 0.1; done")
    leader = start(shell, work, "a")
    wait_until((folder / "step").exists)
    assert call(shell, work, "state", "jobs/a").split() == [str(leader.pid), "-", "1"]
    call(shell, work, "end", "jobs/a", "0")
    assert (folder / "rc").read_text().strip() == "137"
    leader.wait(PATIENCE_S)
    wait_until(lambda: group_is_gone(leader.pid))
    call(shell, work, "end", "jobs/a", "0")


def test_job_with_killed_leader_is_not_running_and_its_group_can_be_stopped(shell, work):
    folder = prepare(work, "a", "sleep 100 & sleep 101")
    leader = start(shell, work, "a")
    wait_until((folder / "step").exists)
    os.kill(leader.pid, signal.SIGKILL)
    leader.wait()
    assert call(shell, work, "state", "jobs/a").split()[1:] == ["-", "0"]
    assert not group_is_gone(leader.pid)
    call(shell, work, "end", "jobs/a", "1")
    wait_until(lambda: group_is_gone(leader.pid))
    assert call(shell, work, "state", "jobs/a").split()[1:] == ["137", "0"]


def test_job_stop_ignores_a_reused_process_id(shell, work):
    folder = prepare(work, "a", "true")
    foreign = subprocess.Popen(["sleep", "100"], start_new_session=True)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (folder / "pid").write_text(f"{foreign.pid} 1 {boot}\n")
    assert call(shell, work, "state", "jobs/a").split() == [str(foreign.pid), "-", "0"]
    call(shell, work, "end", "jobs/a", "0")
    assert foreign.poll() is None
    foreign.kill()
    foreign.wait()


def test_job_of_an_earlier_boot_is_not_running(shell, work):
    folder = prepare(work, "a", "true")
    (folder / "pid").write_text(f"{os.getpid()} 1 another-boot\n")
    assert call(shell, work, "state", "jobs/a").split() == [str(os.getpid()), "-", "0"]


class Watch:
    def __init__(self, shell: list[str], work: Path) -> None:
        self.process = subprocess.Popen(
            [*shell, "job.sh", "watch", "s1", "60"],
            cwd=work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout.readline().startswith("watching ")

    def end(self, last_words: str = "") -> None:
        self.process.stdin.write(last_words)
        self.process.stdin.close()


@pytest.mark.parametrize("last_words", ["", "bye\n"])
def test_watcher_ends_only_jobs_of_its_session(shell, work, last_words):
    watch = Watch(shell, work)
    prepare(work, "ours", "sleep 100", session="s1")
    free = prepare(work, "free", "sleep 100")
    jobs = {name: start(shell, work, name) for name in ("ours", "free")}
    wait_until(lambda: all((work / "jobs" / name / "step").exists() for name in jobs))
    bystander = subprocess.Popen(["sleep", "100"], start_new_session=True)
    watch.end(f"shell {bystander.pid}\n{last_words}")
    assert watch.process.wait(12) == 0
    assert bystander.wait(PATIENCE_S) == -signal.SIGKILL
    assert jobs["ours"].wait(PATIENCE_S) is not None
    assert (work / "jobs/ours/rc").read_text().strip() == "143"
    assert not (work / "sessions/s1").exists()
    assert jobs["free"].poll() is None
    call(shell, work, "sweep", "all")
    assert (free / "rc").exists()
    jobs["free"].wait(PATIENCE_S)


def test_job_started_after_its_session_ended_runs_nothing(shell, work):
    folder = prepare(work, "late", "echo ran", session="s1")
    start(shell, work, "late").wait(PATIENCE_S)
    assert (folder / "rc").read_text().strip() == "143"
    assert not (folder / "stdout.1").exists()


def test_watcher_replaced_by_another_leaves_jobs_running(shell, work):
    first = Watch(shell, work)
    prepare(work, "a", "sleep 100", session="s1")
    job = start(shell, work, "a")
    wait_until((work / "jobs/a/step").exists)
    first.end()
    second = Watch(shell, work)
    assert first.process.wait(PATIENCE_S) is not None
    assert job.poll() is None
    second.end("bye\n")
    second.process.wait(PATIENCE_S)
    job.wait(PATIENCE_S)


def test_sweep_command_ends_jobs_whose_watcher_process_is_dead(shell, work):
    watch = Watch(shell, work)
    prepare(work, "a", "sleep 100", session="s1")
    job = start(shell, work, "a")
    wait_until((work / "jobs/a/step").exists)
    call(shell, work, "sweep")
    assert job.poll() is None
    watch.process.kill()
    watch.process.wait()
    call(shell, work, "sweep")
    assert job.wait(PATIENCE_S) is not None


@pytest.mark.fault(41)
@pytest.mark.parametrize("shell", ["dash", *(s for s in ("bash", "busybox"))], indirect=True)
def test_session_without_heartbeats_ends_when_its_lease_expires(shell, work):
    """`lease` by itself, as the watcher starts it: signs of life prolong it, silence ends jobs, the watcher last."""
    watch = Watch(shell, work)
    prepare(work, "a", "sleep 100", session="s1")
    job = start(shell, work, "a")
    wait_until((work / "jobs/a/step").exists)
    pid, born = (work / "sessions/s1/watcher").read_text().split()
    timer = subprocess.Popen([*shell, "job.sh", "lease", "s1", "2", pid, born], cwd=work, start_new_session=True)
    for _ in range(5):
        time.sleep(0.6)
        watch.process.stdin.write("alive\n")
        watch.process.stdin.flush()
    assert job.poll() is None and watch.process.poll() is None and timer.poll() is None
    assert timer.wait(6) is not None
    assert job.wait(PATIENCE_S) is not None
    assert watch.process.wait(PATIENCE_S) == -signal.SIGKILL
    assert not (work / "sessions/s1").exists()
    watch.process.communicate()


def test_timer_of_an_ended_watcher_has_no_effect(shell, work):
    watch = Watch(shell, work)
    pid, born = (work / "sessions/s1/watcher").read_text().split()
    watch.process.kill()
    watch.process.communicate()
    assert subprocess.run([*shell, "job.sh", "lease", "s1", "1", pid, born], cwd=work, timeout=PATIENCE_S, check=True)
    assert (work / "sessions/s1").exists()


def test_job_waiting_for_its_start_time_is_stopped_at_once(shell, work):
    folder = prepare(work, "a", "true", "true")
    (folder / "at.2").write_text(f"{time.time() + 100:.3f}\n")
    leader = start(shell, work, "a")
    wait_until((folder / "rc.1").exists)
    call(shell, work, "end", "jobs/a", "5")
    assert (folder / "rc").read_text().strip() == "143"
    assert not (folder / "rc.2").exists()
    leader.wait(PATIENCE_S)
    wait_until(lambda: group_is_gone(leader.pid))
