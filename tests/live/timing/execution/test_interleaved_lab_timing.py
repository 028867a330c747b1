"""Interleaved blocks over SSH in the lab: whole, with an arm that fails, interrupted, and killed in mid-slice."""

from __future__ import annotations

import pytest

from controller_processes import jobs_left
from interleaved_study import SMALL, project_of_small, records_of
from loadbook.execution import services
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.modes.plain.page import page_of
from loadbook.store.ledger import read_ledger
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run


@pytest.fixture
def layout(tmp_path) -> Layout:
    return project_of_small(tmp_path / "home")


# each connection waits for its turn, on a machine of any speed
SLOW = SMALL + "[roles.web.vars]\nrequests_per_s = 1000\n"


def test_run_whose_latency_asks_for_slices_above_a_second_goes_on_with_plain_trials(lab, layout):
    text = SLOW.replace("warmup_s = 0.2", "warmup_s = 0.2\nconnections = 300")
    (layout.studies / "small.toml").write_text(text)
    events = []
    run = run_study(layout, RunRequest("small", lab.hosts_file), on_event=events.append)
    paths, records = layout.run("small", run), records_of(layout, run)
    assert [(record.status, record.interleaved) for record in records] == [("ok", None)] * 2
    (message,) = [event.message for event in events if "plain trials in place of interleaved" in event.message]
    assert "slices of 20 latencies would be longer than 1 s" in message
    ended = [entry for entry in read_ledger(paths.ledger) if entry["event"] == "ended" and not entry["final"]]
    assert [entry["status"] for entry in ended] == ["cancelled"] * 2
    assert jobs_left(lab) == []
    ingest(paths)
    data = load_run(layout, "small")
    assert data.study.execution == "plain"
    assert "instead of interleaved: the slowest arm answers in" in page_of(data.study).execution_text(data)
    assert run_study(layout, RunRequest("small", lab.hosts_file, more=1)) == run
    assert [record.interleaved for record in records_of(layout, run)] == [None] * 4


def test_run_in_whose_pauses_a_server_would_close_connections_goes_on_with_plain_trials(lab, layout):
    # slices of 20 latencies of 25 ms: pauses of three arms are longer than 1 s
    text = SLOW.replace("warmup_s = 0.2", "warmup_s = 0.2\nconnections = 25") + "keepalive_timeout = 1\n"
    (layout.studies / "small.toml").write_text(text + '[treatments.more]\nsame_as = "baseline"\n')
    events = []
    run = run_study(layout, RunRequest("small", lab.hosts_file), on_event=events.append)
    assert [(record.status, record.interleaved) for record in records_of(layout, run)] == [("ok", None)] * 3
    (message,) = [event.message for event in events if "plain trials in place of interleaved" in event.message]
    assert "web closes connections after 1\N{NO-BREAK SPACE}s without requests" in message


def test_run_with_blocks_for_latencies_whose_slices_are_too_long_is_plain_as_a_whole(lab, layout):
    text = SLOW.replace("warmup_s = 0.2", "warmup_s = 0.2\nconnections = 300")
    (layout.studies / "small.toml").write_text(text.replace("blocks = 1", "blocks = 2\nlatency_blocks = 1"))
    run = run_study(layout, RunRequest("small", lab.hosts_file))
    assert [(r.block, r.interleaved) for r in records_of(layout, run)] == [(1, None)] * 2 + [(2, None)] * 2
    assert ingest(layout.run("small", run)).valid == 4
    data = load_run(layout, "small")
    assert len(data.values("latency")) == len(data.values("ok_per_s")) == 4


def test_work_outside_of_slices_is_known_of_services_on_another_machine(lab, layout, monkeypatch):
    """The lab is one machine: the service's host is given another identity; its readings are real."""
    read = services.read_cpu_time
    elsewhere = "00000000-0000-0000-0000-000000000000 pid:[1]"
    monkeypatch.setattr(services, "read_cpu_time", lambda *given: read(*given)._replace(machine=elsewhere))
    text = SMALL.replace("blocks = 1", "blocks = 1\nslices = [0.05, 0.1]")
    (layout.studies / "small.toml").write_text(text)
    run = run_study(layout, RunRequest("small", lab.hosts_file))
    for record in records_of(layout, run):
        # the latency of a busy machine may ask for longer ones
        assert record.interleaved.slice_s == pytest.approx(max(0.05, 10 * record.interleaved.gap_s))
        used_s = sum(service.cpu_s for service in record.services)
        assert 0.0 <= record.interleaved.outside_cpu_s < 0.1 * used_s
        assert " - -\n" in (layout.run("small", run).trial(record.trial) / "slices").read_text()
    assert jobs_left(lab) == []
    replayed = run_study(layout, RunRequest("small", layout.run("small", run).raw / "hosts.toml", new=True))
    both = zip(records_of(layout, run), records_of(layout, replayed), strict=True)
    assert all(before.interleaved == now.interleaved for before, now in both)
