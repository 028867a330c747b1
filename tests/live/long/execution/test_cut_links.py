"""Links of the namespace lab that are cut while a controller works: re-attached, repeated, lost, never an orphan."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller_processes import loadbook, must_be_whole
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.host import Job
from loadbook.hosts.lab import Lab
from loadbook.hosts.netns import NamespaceNetwork, command_line, processes_in
from loadbook.hosts.remote import RECONNECT_TIMEOUT_S, connect
from loadbook.store import trial_record
from loadbook.store.ledger import read_ledger, trial_states
from loadbook.store.paths import Layout, RunPaths
from waiting import PATIENCE_S, meanwhile, wait_until

pytestmark = pytest.mark.root
FOUND_S = 10.0
CUT_S = 10.0
STUDY = """
include = "aa.toml"
name = "cut"
execution = "plain"
blocks = {blocks}

[workload]
warmup_s = 0
connections = 4
duration_s = {duration_s}

[reset]
time_wait_sockets = 1000000

[validity]
driver_cpu = 1.0
"""


def write(layout: Layout, *, blocks: int, duration_s: float) -> list[str]:
    (layout.studies / "cut.toml").write_text(STUDY.format(blocks=blocks, duration_s=duration_s))
    return [f"t{number:04d}" for number in range(1, 2 * blocks + 1)]


def paths_of(layout: Layout) -> RunPaths:
    return layout.run("cut", layout.resolve_run("cut"))


def below(lab: Lab, alias: str, program: str, word: str) -> list[int]:
    """Return the processes of a program on a host that have `word` among their arguments."""
    namespace = f"{NamespaceNetwork(lab.folder).prefix}-host-{alias}"
    lines = {pid: command_line(pid).decode(errors="replace") for pid in processes_in(namespace)}
    return [pid for pid, line in lines.items() if line.startswith(f"{program}\0") and word in line]


def loads(lab: Lab) -> list[int]:
    """Return the load generators at work on the driver."""
    return below(lab, "driver", "wrk", "http://")


@pytest.mark.fault(11)
def test_result_of_a_job_that_ends_during_a_link_failure_is_read_after_reconnecting(spaces, record_property):
    host = connect(spaces.hosts_file, "driver", "cut")
    try:
        boot = host.get("/proc/sys/kernel/random/boot_id", max_bytes=100)
        host.start(Job("short", (("sh", "-c", "echo begun; sleep 6; echo done; exit 3"),), 60))
        host.start(Job("longer", (("sh", "-c", "sleep 20; echo done"),), 60))
        time.sleep(1.5)
        transport, cut_at = host._session.transport, time.monotonic()
        spaces.cut_link("driver", CUT_S)
        transport.join(2 * FOUND_S)
        found = time.monotonic() - cut_at
        assert found < FOUND_S
        assert host.wait("short", timeout_s=30) == 3
        back = time.monotonic() - cut_at
        assert host.get("jobs/short/stdout.1", max_bytes=100) == b"begun\ndone\n"
        assert host.get("/proc/sys/kernel/random/boot_id", max_bytes=100) == boot
        assert host.reconnects == 1
        assert host.wait("longer", timeout_s=30) == 0  # the old connection's end does not end it
        assert host.get("jobs/longer/stdout.1", max_bytes=100) == b"done\n"
    finally:
        host.close()
    printed = f"cut for {CUT_S:g} s: noticed after {found:.1f} s, output and code of a 6 s job there after {back:.1f} s"
    record_property("seen", printed)


@pytest.mark.fault(11)
def test_trial_continues_during_a_link_failure(spaces, layout, record_property):
    """Only the controller's way is cut, as where hosts have a network of their own for the load."""
    trials = write(layout, blocks=1, duration_s=16)

    def cut() -> None:
        wait_until(lambda: loads(spaces), 120)
        time.sleep(1)
        with firewall(spaces, "driver"):
            time.sleep(CUT_S)

    with meanwhile(cut):
        run_study(layout, RunRequest("cut", spaces.hosts_file))
    must_be_whole(paths_of(layout), trials)
    first = trial_record.read_trial(paths_of(layout).trial("t0001"))
    assert (first.attempt, first.status, first.reconnects) == (1, "ok", 1)
    record_property("seen", f"a 16 s trial, {CUT_S:g} s without us: ok at the first attempt, 1 reconnect")


@contextmanager
def firewall(lab: Lab, alias: str) -> Iterator[None]:
    """Have a host drop all packets from and to us, and no others."""
    namespace = f"{NamespaceNetwork(lab.folder).prefix}-host-{alias}"
    ours = f"{NamespaceNetwork(lab.folder).subnet([s.address for s in lab.status()])}.254"
    chain = "add table ip cut\nadd chain ip cut in { type filter hook input priority 0; }\n"
    rules = f"{chain}add rule ip cut in ip saddr {ours} drop\n"
    nft = ["nsenter", f"--net=/run/netns/{namespace}", "nft"]
    subprocess.run([*nft, "-f", "-"], input=rules, text=True, check=True, timeout=PATIENCE_S)
    try:
        yield
    finally:
        subprocess.run([*nft, "delete", "table", "ip", "cut"], check=True, timeout=PATIENCE_S)


@pytest.mark.fault(11, 52)
def test_run_of_twelve_trials_completes_through_link_failures(spaces, layout, record_property):
    trials = write(layout, blocks=6, duration_s=3)
    seed, over, cuts = random.randrange(1 << 30), threading.Event(), []
    draw = random.Random(seed)

    def cut() -> None:
        wait_until(lambda: loads(spaces), 120)
        while not over.wait(draw.uniform(0, 20)):
            alias = draw.choice(["driver", "web"])
            spaces.cut_link(alias, CUT_S)
            cuts.append(alias)
            over.wait(CUT_S)

    with meanwhile(cut):
        try:
            commands = until_done(layout, spaces)
        finally:
            over.set()
    must_be_whole(paths_of(layout), trials)
    entries = [e for e in read_ledger(paths_of(layout).ledger) if e["event"] == "ended"]
    paths = paths_of(layout)
    records = [trial_record.read_trial(p) for p in (*paths.trials.glob("*"), *paths.failed.glob("*"))]
    assert {e["status"] for e in entries if e["final"]} == {"ok"}, f"seed {seed}"
    assert {e["status"] for e in entries if not e["final"]} <= {"lost", "timeout"}, f"seed {seed}"
    reconnects, repeated = sum(r.reconnects for r in records), len(entries) - len(trials)
    assert repeated or reconnects, f"seed {seed}: no cut met anything"
    counts = f"{repeated} attempts repeated, {reconnects} reconnects in trials, done by {commands} command(s)"
    record_property("seen", f"{len(cuts)} cuts of {CUT_S:g} s: 12 trials ok, {counts}")


def until_done(layout: Layout, lab: Lab) -> int:
    """Give the command until the run is complete, as a user would; return how often."""
    for number in range(1, 6):
        controller = loadbook(layout, "run", "cut", "--hosts", str(lab.hosts_file))
        _, err = controller.communicate(timeout=600)
        if controller.returncode == 0:
            return number
        assert controller.returncode == 3, err  # a host was away where a run cannot do without it: at its start or end
        for alias in ("driver", "web"):
            lab.restore_link(alias)
    raise AssertionError(err)


@pytest.mark.fault(12)
def test_run_stops_after_three_trials_lost_to_a_dead_link(spaces, layout, record_property):
    trials = write(layout, blocks=2, duration_s=3)
    controller = loadbook(layout, "run", "cut", "--hosts", str(spaces.hosts_file))
    wait_until(lambda: loads(spaces), 120)
    spaces.cut_link("driver", 600)
    begun = time.monotonic()
    try:
        _, err = controller.communicate(timeout=400)
        took = time.monotonic() - begun
    finally:
        spaces.restore_link("driver")
    assert controller.returncode == 3
    assert "3 trials in a row were lost" in err and "then resume: loadbook run" in err
    ended = trial_states(read_ledger(paths_of(layout).ledger))
    assert {(s.status, s.final) for s in ended.values()} == {("lost", False)} and len(ended) == 3
    until_done(layout, spaces)
    must_be_whole(paths_of(layout), trials, reopened=3)
    assert not loads(spaces)
    record_property(
        "seen", f"out of reach for good: lost after {RECONNECT_TIMEOUT_S:g} s, stopped after {took:.0f} s, resumed"
    )


CONTROLLER = """
import sys, time
from pathlib import Path
from loadbook.hosts.remote import connect
from loadbook.hosts.host import Job
host = connect(Path(sys.argv[1]), "driver", "20200101-000000")
host.start(Job("orphan", (("sleep", "333"),), 8))
print("started", flush=True)
time.sleep(100)
"""


@pytest.mark.fault(1, 12)
def test_load_ends_when_its_lease_expires_after_the_controller_network_fails(spaces, record_property):
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(spaces.hosts_file)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert controller.stdout.readline() == "started\n"
        begun = time.monotonic()
        wait_until(lambda: below(spaces, "driver", "sleep", "333"))
        spaces.cut_link("driver", 60)
        controller.kill()
        wait_until(lambda: not below(spaces, "driver", "sleep", "333"))
        took = time.monotonic() - begun
        assert took > 7
    finally:
        controller.kill()
        controller.wait()
        spaces.restore_link("driver")
    record_property("seen", f"link cut, controller killed, no end of file: a lease of 8 s ended it after {took:.1f} s")


@pytest.mark.fault(14)
def test_host_reboot_during_a_trial_makes_the_attempt_lost(spaces, layout, tmp_path, record_property):
    trials = write(layout, blocks=1, duration_s=6)
    controller = loadbook(layout, "run", "cut", "--hosts", str(spaces.hosts_file))
    wait_until(lambda: loads(spaces), 120)
    os.kill(controller.pid, signal.SIGSTOP)  # as long as the machine is down
    boot_id = reboot(spaces, "web", tmp_path)
    os.kill(controller.pid, signal.SIGCONT)
    try:
        _, err = controller.communicate(timeout=120)
        assert controller.returncode == 0, err
        must_be_whole(paths_of(layout), trials)
        lost = trial_record.read_trial(paths_of(layout).failed / "t0001-attempt1")
        assert lost.status == "lost" and "was rebooted during the trial" in lost.reason
        again = trial_record.read_trial(paths_of(layout).trial("t0001"))
        assert (again.attempt, again.status, again.boot_ids["web"]) == (2, "ok", boot_id)
        assert all(service.live for service in again.services)
    finally:
        kill_all(spaces, "web")
        spaces.up()
    record_property("seen", "another boot id: lost, said why; repeated, its configuration proven again, ok")


def kill_all(lab: Lab, alias: str) -> None:
    for pid in processes_in(f"{NamespaceNetwork(lab.folder).prefix}-host-{alias}"):
        os.kill(pid, signal.SIGKILL)


def reboot(lab: Lab, alias: str, folder: Path) -> str:
    """Kill everything on a host, start it again, and give it another boot id, which is returned."""
    kill_all(lab, alias)
    lab.up()
    pid = next(status.pid for status in lab.status() if status.alias == alias)
    fake = folder / "boot_id"
    fake.write_text("11111111-2222-4333-8444-555555555555\n")
    mount = ["mount", "--bind", str(fake), "/proc/sys/kernel/random/boot_id"]
    subprocess.run(["nsenter", f"--target={pid}", "--mount", *mount], check=True, timeout=PATIENCE_S)
    return fake.read_text().strip()
