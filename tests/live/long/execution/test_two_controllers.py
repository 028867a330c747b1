"""Two people, one laboratory: two real `loadbook run`, each in a project of its own, on the same hosts."""

from __future__ import annotations

import re
import resource
import shutil
import signal
import time

import pytest

from controller_processes import jobs_left, loadbook
from lab_study import ON_A_BUSY_MACHINE
from loadbook.hosts.lab import lab_lock_owners
from loadbook.store.ledger import read_ledger, trial_states
from recorded_run import with_studies
from waiting import wait_until

SMALL = (
    """
include = "aa.toml"
name = "{name}"
execution = "plain"
blocks = {blocks}
"""
    + ON_A_BUSY_MACHINE
)
# a load that leaves CPUs to controllers, as on hosts of their own: the time of a refusal is then that of its command
GENTLE = """
schema = 1
name = "first"
question = "Does a load that takes little let others begin?"
baseline = "one"
blocks = 8

[roles.driver]
[roles.web]
service = "nginx"

[workload]
tool = "httperf"
model = "open"
rate_per_s = 100
duration_s = 1
warmup_s = 0.2
path = "/index.html"

[treatments.one]
[treatments.again]
same_as = "one"
check = "aa"
"""


@pytest.fixture
def two(tmp_path):
    """Two projects, one with the study `first`, one with `second`."""
    found = []
    for name in ("first", "second"):
        layout = with_studies(tmp_path / name)
        (layout.studies / f"{name}.toml").write_text(SMALL.format(name=name, blocks=3 if name == "first" else 1))
        found.append(layout)
    return found


def children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def begin(layout, lab, name, *words):
    return loadbook(layout, "run", name, "--hosts", str(lab.hosts_file), *words)


def until_it_measures(process):
    for line in process.stderr:
        if "t0001" in line:
            return
    raise AssertionError(process.stderr.read())


def all_ok(layout, name) -> bool:
    paths = layout.run(name, layout.resolve_run(name))
    return {state.status for state in trial_states(read_ledger(paths.ledger)).values()} == {"ok"}


@pytest.mark.fault(40)
def test_second_controller_is_refused_within_2_s_and_names_the_owner(lab, two, record_property):
    (two[0].studies / "first.toml").write_text(GENTLE)
    first = begin(two[0], lab, "first")
    until_it_measures(first)
    begun, used_s = time.monotonic(), children_s()
    second = begin(two[1], lab, "second")
    _, err = second.communicate(timeout=120)
    whole_s, used_s = time.monotonic() - begun, children_s() - used_s
    assert second.returncode == 3
    printed = rf"host driver: in use by \S+@\S+ \(process {first.pid}\), run [\d-]+ of first, for \d"
    assert re.search(printed, err), err
    assert "--wait" in err and "--break-lock" in err
    assert two[1].runs("second") == []
    _, err = first.communicate(timeout=120)
    assert first.returncode == 0, err
    assert all_ok(two[0], "first")
    record_property("seen", f"refused {whole_s:.1f} s after the command was typed ({used_s:.1f} s of CPU)")


@pytest.mark.fault(40, 41)
def test_waiting_run_starts_when_the_host_is_free(lab, two, record_property):
    first = begin(two[0], lab, "first")
    until_it_measures(first)
    second = begin(two[1], lab, "second", "--wait")
    for line in second.stderr:
        if line.startswith("waiting for host driver: in use by"):
            break
    else:
        raise AssertionError("it does not say that it waits")
    first.send_signal(signal.SIGKILL)
    first.communicate()
    killed = time.monotonic()
    until_it_measures(second)
    record_property("seen", f"waiting, it measured {time.monotonic() - killed:.1f} s after kill -9 of the owner")
    _, err = second.communicate(timeout=120)
    assert second.returncode == 0, err
    assert all_ok(two[1], "second")
    again = begin(two[0], lab, "first")
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert "which died, is taken over" in err
    assert all_ok(two[0], "first")


@pytest.mark.fault(40)
def test_waiting_for_a_host_has_a_limit_and_break_lock_takes_the_host(lab, two, record_property):
    first = begin(two[0], lab, "first")
    until_it_measures(first)
    begun = time.monotonic()
    _, err = (waiting := begin(two[1], lab, "second", "--wait-limit", "2")).communicate(timeout=120)
    assert waiting.returncode == 3
    assert time.monotonic() - begun > 2
    assert re.search(r"waiting for host driver, for \d+\s?m?s at most: in use by", err), err
    owner = re.search(r"--break-lock ([0-9a-f]{8})", err)[1]
    _, err = (breaking := begin(two[1], lab, "second", "--break-lock", owner)).communicate(timeout=120)
    assert breaking.returncode == 0, err
    assert all_ok(two[1], "second")
    _, err = first.communicate(timeout=120)
    record_property("seen", f"broken; the other run ended with exit code {first.returncode}, and goes on later")
    again = begin(two[0], lab, "first")
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert all_ok(two[0], "first")
    assert jobs_left(lab) == []


@pytest.mark.fault(40)
def test_runs_on_different_hosts_do_not_block_each_other(lab, two, tmp_path):
    """The same machine, known to each by hosts of its own with locks of their own, as two labs are."""
    for name, layout in zip(("first", "second"), two, strict=True):
        text = lab.hosts_file.read_text().replace("/work/host.lock", f"/work/{name}.lock")
        if name == "second":
            text = re.sub(r"service_port = (\d+)", lambda m: f"service_port = {int(m[1]) + 700}", text)
            text = text.replace('/work"', '/work/second"')
        (layout.root / "hosts.toml").write_text(text)
        shutil.copy(lab.folder / "known_hosts", layout.root / "known_hosts")
    both = [
        loadbook(layout, "run", name, "--blocks", "1", "--hosts", str(layout.root / "hosts.toml"))
        for name, layout in zip(("first", "second"), two, strict=True)
    ]
    for process in both:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    wait_until(lambda: not lab_lock_owners(lab.folder / "web/work"))
