"""Memory and ports of all arms of an interleaved block: found by the doctor, and reasons for plain trials."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from command_line import exit_code
from loadbook.execution import arms_requirements as arm_requirements
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.hosts.netns import NamespaceNetwork
from loadbook.store import trial_record
from recorded_run import with_studies
from waiting import PATIENCE_S

SMALL = """
include = "aa.toml"
name = "small"
blocks = 1

[reset]
time_wait_sockets = 1000000

[validity]
driver_cpu = 1.0
"""


@pytest.fixture
def layout(tmp_path, monkeypatch):
    made = with_studies(tmp_path / "home")
    (made.studies / "small.toml").write_text(SMALL)
    monkeypatch.setenv("LOADBOOK_HOME", str(made.root))
    monkeypatch.setenv("COLUMNS", "300")
    return made


def doctor(monkeypatch, capsys, lab: Lab) -> tuple[int, str]:
    code = exit_code(monkeypatch, "doctor", "small", "--hosts", str(lab.hosts_file))
    return code, " ".join(capsys.readouterr().out.split())


@contextmanager
def closed_ports(lab: Lab, alias: str, ports: str) -> Iterator[None]:
    """Have a host of a namespace lab drop packets to TCP ports."""
    namespace = f"{NamespaceNetwork(lab.folder).prefix}-host-{alias}"
    nft = ["nsenter", f"--net=/run/netns/{namespace}", "nft"]
    chain = "add table ip shut\nadd chain ip shut in { type filter hook input priority 0; }\n"
    rules = f"{chain}add rule ip shut in tcp dport {ports} drop\n"
    subprocess.run([*nft, "-f", "-"], input=rules, text=True, check=True, timeout=PATIENCE_S)
    try:
        yield
    finally:
        subprocess.run([*nft, "delete", "table", "ip", "shut"], check=True, timeout=PATIENCE_S)


@pytest.mark.root
def test_ports_behind_a_firewall_are_named_by_the_doctor_and_make_trials_plain(spaces, layout, monkeypatch, capsys):
    with closed_ports(spaces, "web", "81-99"):  # the first treatment's port is 80
        code, printed = doctor(monkeypatch, capsys, spaces)
        events = []
        run = run_study(layout, RunRequest("small", spaces.hosts_file), on_event=events.append)
    assert code == 0
    assert "? web ports host driver cannot connect to port 83 of host web, which treatment again would use" in printed
    assert 'or run plain trials (execution = "plain")' in printed
    assert any("instead of interleaved: host driver cannot connect to port" in event.message for event in events)
    records = [trial_record.read_trial(folder) for folder in layout.run("small", run).trials.iterdir()]
    assert [(record.status, record.interleaved) for record in records] == [("ok", None)] * 2
    code, printed = doctor(monkeypatch, capsys, spaces)
    assert "for all treatments at once: driver reaches them" in printed


def test_doctor_states_memory_and_ports_of_all_treatments_at_once(lab, layout, monkeypatch, capsys):
    code, printed = doctor(monkeypatch, capsys, lab)
    assert code == 0
    assert "ok driver memory 2 load generators at once, about 32.0 MiB" in printed
    assert "ok web memory 2 services at once, about 64.0 MiB" in printed
    assert "ok web ports 1" in printed and "for all treatments at once: driver reaches them" in printed
    (layout.studies / "small.toml").write_text(SMALL.replace("blocks = 1", 'blocks = 1\nexecution = "plain"'))
    assert "at once" not in doctor(monkeypatch, capsys, lab)[1]


def test_run_whose_services_need_more_memory_than_a_host_has_is_plain(lab, layout, monkeypatch, capsys):
    monkeypatch.setattr(arm_requirements, "available_bytes", lambda host: 40 << 20)
    assert (
        "? web memory 2 services at once, about 64.0 MiB, may need more than host web has available, 40.0 MiB"
        in (doctor(monkeypatch, capsys, lab)[1])
    )
    events = []
    run = run_study(layout, RunRequest("small", lab.hosts_file), on_event=events.append)
    assert any("instead of interleaved: 2 services at once, about 64.0" in event.message for event in events)
    records = [trial_record.read_trial(folder) for folder in layout.run("small", run).trials.iterdir()]
    assert [record.interleaved for record in records] == [None] * 2


def test_ports_are_not_called_reached_without_perl_on_the_client(lab, layout, monkeypatch, capsys):
    broken = arm_requirements.CONNECT_PROGRAM.replace("IO::Socket::INET", "No::Such::Module")
    monkeypatch.setattr(arm_requirements, "CONNECT_PROGRAM", broken)
    assert "for all treatments at once; not tested" in doctor(monkeypatch, capsys, lab)[1]
    run = run_study(layout, RunRequest("small", lab.hosts_file))  # at once: nothing listens on these ports any more
    records = [trial_record.read_trial(folder) for folder in layout.run("small", run).trials.iterdir()]
    assert all(record.interleaved for record in records)


def test_memory_that_a_host_can_give_is_read_from_its_kernel(connect_lab):
    seen = arm_requirements.available_bytes(connect_lab("web"))
    assert seen is not None and seen > 100 << 20
