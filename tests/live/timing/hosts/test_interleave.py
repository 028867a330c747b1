"""The program that lets load generators take slices: slices, counts, ends, nothing left stopped; real processes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from interleave_schedules import PROGRAM, write_schedule
from loadbook.modes.interleaved.read import apart_share, read_slices
from waiting import PATIENCE_S, wait_until

# counts for so many seconds of the wall clock, then prints its count; it does not count while it is stopped
COUNTER = "import sys, time\nend, n = time.monotonic() + float(sys.argv[1]), 0\nwhile time.monotonic() < end: n += 1\n"
pytestmark = pytest.mark.skipif(not shutil.which("perl"), reason="needs perl")


class Slice(NamedTuple):
    arm: str
    start_s: float
    end_s: float


def interleave(folder: Path, commands: dict[str, str], **settings: float) -> tuple[int, list[Slice], dict[str, int]]:
    write_schedule(folder, commands, **settings)
    done = subprocess.run(["perl", PROGRAM, "schedule"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    words = [line.split() for line in done.stdout.splitlines()]
    slices = [Slice(w[1], float(w[2]), float(w[3])) for w in words if w[0] == "slice"]
    return done.returncode, slices, {w[1]: int(w[2]) for w in words if w[0] == "exit"}


def counter(seconds: float) -> str:
    return f"exec {sys.executable} -c '{COUNTER}print(n)' {seconds}"


def test_interleaved_generators_get_equal_time_and_never_run_together(tmp_path: Path) -> None:
    rc, slices, codes = interleave(tmp_path, {k: counter(2) for k in "abc"}, end=2.0, first=0.1)
    assert (rc, codes) == (0, {"a": 0, "b": 0, "c": 0})
    assert all(before.end_s <= after.start_s for before, after in pairwise(slices))
    active = {arm: sum(t.end_s - t.start_s for t in slices if t.arm == arm) for arm in "abc"}
    assert max(active.values()) < 1.5 * min(active.values())
    assert all(int((tmp_path / arm / "stdout").read_text()) > 0 for arm in "abc")


def test_interleaved_generators_follow_the_randomised_order(tmp_path: Path) -> None:
    _, slices, _ = interleave(tmp_path, {k: counter(1) for k in "ab"})
    regular = [each.arm for each in slices][2:]
    assert "".join(regular).startswith("abbaabba")


def test_interleaving_continues_when_the_generator_of_one_arm_ends_early(tmp_path: Path) -> None:
    rc, slices, codes = interleave(tmp_path, {"a": "exit 7", "b": counter(1)})
    assert (rc, codes) == (0, {"a": 7, "b": 0})
    assert [each.arm for each in slices].count("a") == 1
    assert [each.arm for each in slices].count("b") > 10


def test_interleaving_kills_a_hanging_generator_and_keeps_the_others(tmp_path: Path) -> None:
    rc, _, codes = interleave(tmp_path, {"a": "trap '' TERM; while :; do :; done", "b": counter(1)}, tail=0.3)
    assert (rc, codes) == (124, {"a": 137, "b": 0})


def schedules_at_once(folder: Path, commands: list[dict[str, str]], **settings: float) -> list[list[Slice]]:
    """Run the schedule on several drivers, here processes, with one common instant; return the slices of each."""
    folders = [folder / f"driver-{number}" for number in range(len(commands))]
    for own, arms in zip(folders, commands, strict=True):
        own.mkdir()
        write_schedule(own, arms, **settings)
    running = [subprocess.Popen(["perl", PROGRAM, "schedule"], cwd=own, stdout=subprocess.PIPE) for own in folders]
    logs = [read_slices(process.communicate(timeout=60)[0].decode()) for process in running]
    assert [process.returncode for process in running] == [0] * len(commands)
    return [[Slice(str(t.arm), t.start_s, t.end_s) for t in log.slices] for log in logs]


def test_drivers_with_a_common_instant_have_the_same_slices_at_the_same_time(tmp_path: Path) -> None:
    arms = dict.fromkeys("012", counter(2))
    begins = time.time() + 0.5
    logs = schedules_at_once(tmp_path, [arms, arms], end=2.0, at=begins, last=0.2)
    spans = [[(turn.start_s, turn.end_s) for turn in log if turn.arm == "1"] for log in logs]
    share = apart_share(spans)
    assert share is not None and share < 0.5  # 0.8 for slices at independent times
    wait_s = logs[0][0].start_s - (begins - time.time() + time.monotonic())
    assert -0.001 < wait_s < 0.5


def test_driver_whose_generator_ends_early_keeps_to_the_common_schedule(tmp_path: Path) -> None:
    whole, broken = {k: counter(1) for k in "012"}, {"0": "exit 7", "1": counter(1), "2": "exit 7"}
    logs = schedules_at_once(tmp_path, [whole, broken], at=time.time() + 0.5, last=0.2)
    own = [[turn for turn in log if turn.arm == "1"] for log in logs]
    assert {len([t for t in logs[1] if t.arm == arm]) for arm in "02"} == {1}
    assert min(map(len, own)) >= 4
    share = apart_share([[(turn.start_s, turn.end_s) for turn in turns] for turns in own])
    assert share is not None and share < 0.5  # 0.8 for slices at independent times


def test_slices_that_come_too_late_for_the_common_schedule_are_left_out(tmp_path: Path) -> None:
    """The first slices are over before the program is started."""
    arms = {k: counter(1) for k in "01"}
    began = time.time() - 1.0
    (log,) = schedules_at_once(tmp_path, [arms], end=2.0, at=began, last=0.2)
    regular = [turn for turn in log if turn.arm == "0"][1:-1]
    at = began - time.time() + time.monotonic()
    places = [(turn.start_s - at - 2 * 0.052) / 0.027 % 1 for turn in regular]
    assert statistics.median(places) < 0.5


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_interleaving_ended_by_a_signal_leaves_no_process(tmp_path: Path, sign: signal.Signals) -> None:
    write_schedule(tmp_path, dict.fromkeys("ab", "echo $$ >pid; exec sleep 60"), end=60.0)
    process = subprocess.Popen(["perl", PROGRAM, "schedule"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    wait_until(lambda: (tmp_path / "b" / "pid").exists() and (tmp_path / "b" / "pid").read_text())
    time.sleep(0.3)
    process.send_signal(sign)
    assert process.wait(PATIENCE_S) == 143
    for arm in "ab":
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / arm / "pid").read_text()), 0)


def test_interleaving_killed_with_its_process_group_leaves_no_stopped_process(tmp_path: Path) -> None:
    write_schedule(tmp_path, dict.fromkeys("ab", "echo $$ >pid; exec sleep 60"), end=60.0)
    process = subprocess.Popen(
        ["perl", PROGRAM, "schedule"], cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True
    )
    wait_until(lambda: (tmp_path / "b" / "pid").exists() and (tmp_path / "b" / "pid").read_text())
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE_S)
    for arm in "ab":
        wait_until(lambda arm=arm: not is_running(int((tmp_path / arm / "pid").read_text())))


def is_running(pid: int) -> bool:
    """Tell whether a process is there and is not only waiting for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_interleaving_needs_only_perl_base(tmp_path: Path) -> None:
    """Debian's perl-base has no Time::HiRes: the clock is then read by a system call."""
    write_schedule(tmp_path, {k: counter(0.5) for k in "ab"}, end=0.5)
    (tmp_path / "Time").mkdir()
    (tmp_path / "Time" / "HiRes.pm").write_text("die 'not installed';\n")
    done = subprocess.run(
        ["perl", "-I", str(tmp_path), PROGRAM, "schedule"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    clock = next(line.split() for line in done.stdout.splitlines() if line.startswith("clock"))
    assert abs(float(clock[1]) - time.monotonic()) < 30 and abs(float(clock[2]) - time.time()) < 30


# uses a CPU for 5 ms in every 10 ms, in a child that it starts after a while; prints nothing
BUSY = """import os, time
time.sleep(0.4)
if os.fork():
    os.wait()
end = time.monotonic() + 30
while time.monotonic() < end:
    begun = time.monotonic()
    while time.monotonic() < begun + 0.005: pass
    time.sleep(0.005)
"""


def machine() -> str:
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {Path('/proc/self/ns/pid').readlink()}"


def test_cpu_time_of_services_is_split_into_own_slices_and_all_other_time(tmp_path: Path) -> None:
    write_schedule(tmp_path, {k: counter(2) for k in "01"}, end=2.0)
    with (
        subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) as service,
        (tmp_path / "schedule").open("a") as schedule,
    ):
        schedule.write(f"service 0 {machine()} {service.pid}\nservice 1 another x {service.pid}\n")
        schedule.flush()
        done = subprocess.run(["perl", PROGRAM, "schedule"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        os.killpg(service.pid, signal.SIGKILL)
    slice_log = read_slices(done.stdout)
    own_s = sum(turn.service_cpu_s or 0.0 for turn in slice_log.slices_of(0))
    outside_s = slice_log.outside_cpu_s(0)
    # it works without a break, also in the slices of the other arm, in a process that is younger than the first slice
    assert outside_s is not None and 0.5 < outside_s / own_s < 2
    assert 0.4 < own_s + outside_s < 1.5
    assert slice_log.outside_cpu_s(1) is None
    assert all(turn.service_cpu_s is None for turn in slice_log.slices_of(1))


def test_received_bytes_and_cpu_time_of_the_generator_are_counted_by_slice(tmp_path: Path) -> None:
    interleave_log = tmp_path / "log"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        send = f"import socket, time\nc = socket.create_connection(('127.0.0.1', {port}))\nend = time.monotonic() + 1\n"
        send += "while time.monotonic() < end: c.sendall(bytes(200_000)); time.sleep(0.001)\n"
        drain = threading.Thread(target=_drain, args=(server,), daemon=True)
        drain.start()
        write_schedule(tmp_path, {"0": f'exec {sys.executable} -c "{send}"', "1": "exec sleep 1"})
        with interleave_log.open("w") as log:
            subprocess.run(["perl", PROGRAM, "schedule"], cwd=tmp_path, stdout=log, timeout=60, check=True)
    slice_log = read_slices(interleave_log.read_text())
    received = [statistics.median(turn.received_bytes or 0.0 for turn in slice_log.slices_of(k)[1:-1]) for k in (0, 1)]
    cpu_s = [statistics.median(turn.generator_cpu_s or 0.0 for turn in slice_log.slices_of(k)[1:-1]) for k in (0, 1)]
    assert received[0] > 10_000 and cpu_s[0] > 0.0001
    assert received[1] < received[0] / 5 and cpu_s[1] < cpu_s[0] / 5


def _drain(server: socket.socket) -> None:
    connection, _ = server.accept()
    while connection.recv(1 << 20):
        pass


def test_files_that_are_read_at_every_slice_stay_open(tmp_path: Path) -> None:
    """A file of /proc that is closed changes how soon the load generator wakes up in the next 20 ms."""
    write_schedule(tmp_path, {k: counter(2) for k in "ab"}, end=2.0)
    process = subprocess.Popen(["perl", PROGRAM, "schedule"], cwd=tmp_path, stdout=subprocess.DEVNULL)

    def read_files() -> dict[str, str]:
        links = {}
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                links[link.name] = str(link.readlink())
        return {name: target for name, target in links.items() if target.startswith("/proc/")}

    time.sleep(0.6)
    seen = []
    for _ in range(3):
        time.sleep(0.3)
        seen.append(read_files())
    assert process.wait(PATIENCE_S) == 0
    assert seen[0] == seen[1] == seen[2]
    names = {target.rsplit("/", 1)[-1] for target in seen[0].values()}
    assert names >= {"dev", "stat", "schedstat"}
