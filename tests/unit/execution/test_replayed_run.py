"""Everything but the network, offline: a whole run on hosts that play the recorded run back."""

from __future__ import annotations

import re
import socket

import pandas as pd
import pytest

from loadbook.analyses.effects.page import EffectsPage
from loadbook.batch.index import write_index
from loadbook.cli import main
from loadbook.core.errors import UsageError
from loadbook.execution import select
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.report.html import write_summary
from loadbook.report.page import scope_parts
from loadbook.store.ledger import read_ledger
from loadbook.store.run_record import RecordedHost
from loadbook.store.tables import TABLES, load_run, read_table
from loadbook.store.trial_record import read_json, read_trial, write_json
from recorded_run import STUDY, copy_recorded_run, run_of

# what a replay does in its own time
OWN_TIMES = ["run", "started", "duration_s"]
# how the recording says what is said in other words now
THEN = "wrk ended with exit code 137"
NOW = "wrk was killed by signal 9 (SIGKILL, as the kernel does when memory runs out): exit code 137"


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Fail whatever reaches for the network."""

    def refuse(*given):
        raise AssertionError(f"a socket was used: {given}")

    for name in ("connect", "connect_ex", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse)


@pytest.fixture
def layout(tmp_path):
    return copy_recorded_run(tmp_path)


@pytest.fixture
def hosts(layout):
    """The hosts file that every run keeps: it plays the run back."""
    return run_of(layout) / "hosts.toml"


def events(paths) -> list[dict[str, object]]:
    """Return the ledger without checksums: those of a replay are its own."""
    return [
        {k: in_words_of_now(v) for k, v in e.items() if k not in ("sha256", "files")} for e in read_ledger(paths.ledger)
    ]


def in_words_of_now(value):
    return value.replace(THEN, NOW) if isinstance(value, str) else value


def tables(paths) -> dict[str, pd.DataFrame]:
    ingest(paths)
    found = {name: read_table(paths.table(name), name) for name in TABLES}
    found["trials"]["reason"] = found["trials"]["reason"].map(in_words_of_now)
    return {name: table.drop(columns=[c for c in OWN_TIMES if c in table]) for name, table in found.items()}


def test_replayed_run_reproduces_the_recorded_tables(layout, hosts, monkeypatch, capsys):
    recorded = layout.run(STUDY, layout.resolve_run(STUDY))
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    monkeypatch.setattr("sys.argv", ["loadbook", "run", STUDY, "--hosts", str(hosts)])
    main()
    run = re.search(r"^run (\S+)$", capsys.readouterr().out, re.M)[1]
    paths = layout.run(STUDY, run)
    assert paths.raw != recorded.raw
    assert events(paths) == events(recorded)
    for name, table in tables(recorded).items():
        pd.testing.assert_frame_equal(tables(paths)[name], table, obj=name)
    for folder in [*recorded.trials.iterdir(), *recorded.failed.iterdir()]:
        before, now = read_trial(folder), read_trial(paths.raw / folder.relative_to(recorded.raw))
        outputs = [n for n in before.files if not n.startswith(("config", "answers"))]
        assert {n: now.files[n] for n in outputs} == {n: before.files[n] for n in outputs}
        assert (now.status, now.window) == (before.status, before.window)
        assert now.reason == in_words_of_now(before.reason)
        assert now.services[0].live and now.services[0].pids == before.services[0].pids
    assert not list(layout.replay.glob("*"))
    says_what_it_is(layout, run, recorded.raw.name)


def says_what_it_is(layout, run, recorded):
    """A replay names the run that it plays back, where readers look first."""
    assert read_json(layout.run(STUDY, recorded).run_json)["replay"] is None
    data = load_run(layout, STUDY, run)
    assert data.run_record.replay == recorded
    origin = f"REPLAY of run {recorded}: nothing was measured anew"
    assert scope_parts(data, 0.02)[0] == origin
    page = EffectsPage(data)
    write_summary(layout.root, page.summary())
    assert origin in write_index(layout.root).read_text()


def test_replay_refuses_another_configuration_or_load(layout, hosts):
    for name, change, reason in [
        ("load", "[workload]\nconnections = 60", r"not recorded: start {trial}-load wrk -t1 -c60 "),
        ("config", "[roles.web.vars]\npage_bytes = 6", r"start: web does not run this treatment's config"),
    ]:
        spec = f'include = "{STUDY}.toml"\nname = "{name}"\n[subsets]\nrecorded = ["baseline-auto"]\n{change}\n'
        (layout.studies / f"{name}.toml").write_text(spec)
        run = run_study(layout, RunRequest(name, hosts, blocks=1))
        record = read_trial(next(layout.run(name, run).failed.iterdir()))
        assert record.status == "invalid"
        assert re.search(reason, record.reason)


def test_replay_reports_missing_recordings_before_the_run(layout, hosts):
    printed = []
    with pytest.raises(UsageError, match=r"does not hold:\n  t0033: \S+ in block 9\n"):
        run_study(layout, RunRequest(STUDY, hosts, blocks=9, new=True), on_event=printed.append)
    assert [event.message for event in printed] == []
    with pytest.raises(UsageError, match=r" in block 1\n(.|\n)* and \d+ more"):
        run_study(layout, RunRequest(STUDY, hosts, subset="all", new=True))


def test_run_is_announced_after_every_check_and_before_its_folder_is_there(layout, hosts):
    printed = []
    run = run_study(
        layout,
        RunRequest(STUDY, hosts, blocks=1, new=True),
        on_event=lambda event: printed.append((event, layout.runs(STUDY))),
    )
    ((number, there),) = [(k, there) for k, (event, there) in enumerate(printed) if event.run]
    assert printed[number][0].message.startswith(f"new run {run}: 4 trials") and run not in there
    assert printed[number - 1][0].message.startswith("checking ")


def test_replays_of_two_studies_started_in_one_second_do_not_collide(layout, hosts, monkeypatch):
    (layout.studies / "other.toml").write_text(f'include = "{STUDY}.toml"\nname = "other"\n')
    monkeypatch.setattr(select, "new_run_id", lambda layout, study: "20261122-160006")

    folders = []

    def meanwhile(event):
        if event.kind == "trial-ended" and event.done == 2:
            run_study(layout, RunRequest("other", hosts, blocks=1, new=True), on_event=look)

    def look(event):
        folders.append({path.name for path in layout.replay.iterdir()})

    run = run_study(layout, RunRequest(STUDY, hosts, blocks=1, new=True), on_event=meanwhile)
    assert folders[-1] == {f"{study}-{run}-{alias}" for study in (STUDY, "other") for alias in ("driver", "web")}
    for study in (STUDY, "other"):
        assert [read_trial(folder).status for folder in layout.run(study, run).trials.iterdir()] == ["ok"] * 4


def test_interrupted_replay_is_resumed_and_never_mixed_with_a_measured_run(layout, hosts):
    def interrupt(event):
        if event.kind == "trial-ended" and event.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(layout, RunRequest(STUDY, hosts, blocks=1), on_event=interrupt)
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    run_json = read_json(paths.run_json)
    write_json(paths.run_json, run_json | {"replay": None})
    with pytest.raises(UsageError, match="begun on real hosts") as refused:
        run_study(layout, RunRequest(STUDY, hosts))
    assert "--new" in refused.value.hint
    write_json(paths.run_json, run_json)
    assert run_study(layout, RunRequest(STUDY, hosts)) == paths.raw.name
    assert ingest(paths).trials == 4


def test_readme_replay_example_runs_offline(layout, hosts):
    run = run_study(layout, RunRequest("nginx-directives-smoke", hosts))
    paths = layout.run("nginx-directives-smoke", run)
    found = ingest(paths)
    assert (found.planned, found.trials) == (24, 24)
    assert (len(list(paths.trials.iterdir())), len(list(paths.failed.iterdir()))) == (23, 1)


def test_replay_hosts_file_keeps_prices(tmp_path):
    from types import SimpleNamespace

    from loadbook.execution.session import replay_hosts_file
    from loadbook.hosts.inventory import HostsFile, read_hosts

    printed = {
        "currency": "EUR",
        "external": ["balancer.example:80"],
        "external_prices": {"balancer": 10.5},
        "hosts": {
            "a": {"roles": ["driver"], "price_per_month": 4.0, "user": "me", "cpus": [1], "allow": ["tc"]},
            "b": {"roles": ["web"], "link_mbit": 100.0},
        },
    }
    inventory = HostsFile.model_validate(printed)
    hosts = {alias: SimpleNamespace(address=f"192.0.2.{n}") for n, alias in enumerate(inventory.hosts, 1)}
    testbed = SimpleNamespace(inventory=inventory, hosts=hosts, roles_of=lambda alias: inventory.hosts[alias].roles)
    (tmp_path / "hosts.toml").write_text(replay_hosts_file(testbed))  # type: ignore[arg-type]
    kept = read_hosts(tmp_path / "hosts.toml")
    assert (kept.price_record(), kept.external) == (inventory.price_record(), inventory.external)
    assert kept.hosts["a"].user is None
    for alias, key in (("a", "cpus"), ("a", "allow"), ("b", "link_mbit")):
        assert getattr(kept.hosts[alias], key) == getattr(inventory.hosts[alias], key)


def test_lab_with_unused_hosts_gets_a_hint():
    from types import SimpleNamespace

    from loadbook.execution.session import _how_to_restore_hosts

    roles = {"driver": ["driver"], "web": ["web"], "web-2": ["web"], "balancer": ["balancer"]}
    study = SimpleNamespace(roles=dict.fromkeys(("driver", "balancer", "web")))
    testbed = SimpleNamespace(hosts=roles, roles_of=roles.get, lab="loopback", plan=SimpleNamespace(study=study))
    before = {alias: RecordedHost(roles=roles[alias]) for alias in ("driver", "web")}
    assert _how_to_restore_hosts(testbed, before).endswith(": loadbook lab up --roles balancer=0,web=1")  # type: ignore[arg-type]
    assert _how_to_restore_hosts(testbed, {alias: RecordedHost(roles=own) for alias, own in roles.items()}).startswith(  # type: ignore[arg-type]
        "give the hosts file"
    )


def test_hosts_that_are_no_lab_are_given_again_by_their_hosts_file():
    from types import SimpleNamespace

    from loadbook.execution.session import _how_to_restore_hosts

    study = SimpleNamespace(roles=dict.fromkeys(("driver", "web")))
    roles = {"driver": ["driver"], "web": ["web"], "web-2": ["web"]}
    testbed = SimpleNamespace(hosts=roles, roles_of=roles.get, lab="", plan=SimpleNamespace(study=study))
    hint = _how_to_restore_hosts(testbed, {"web": RecordedHost(roles=["web"])})  # type: ignore[arg-type]
    assert hint == "give the hosts file that it was begun with"


def test_resumed_run_names_each_host_that_is_not_as_it_was(tmp_path, monkeypatch):
    from types import SimpleNamespace

    from loadbook.execution import session
    from loadbook.store.paths import RunPaths
    from loadbook.store.run_record import write_run_record
    from run_records import make_run_record

    web, same = RecordedHost(roles=["web"]), RecordedHost(roles=["driver"])
    before = {"gone": web, "web": RecordedHost(roles=["web"], link_mbit=100), "same": same}
    now = {"new": web, "web": RecordedHost(roles=["web", "app"], cpus=[1, 2]), "same": same}
    write_run_record(RunPaths(tmp_path, tmp_path), make_run_record(hosts=before, replay="20261119-1"))
    monkeypatch.setattr(session, "hosts_record", lambda testbed: now)
    study = SimpleNamespace(roles={}, name="s")
    testbed = SimpleNamespace(
        run="r1", lab="", replayed_run="20261119-1", hosts=now, roles_of=lambda alias: now[alias].roles,
        plan=SimpleNamespace(study=study),
    )  # fmt: skip
    with pytest.raises(UsageError, match="run r1 cannot go on with these hosts") as refused:
        session.check_same_hosts(testbed, RunPaths(tmp_path, tmp_path))  # type: ignore[arg-type]
    assert refused.value.message.splitlines()[1:] == [
        "  host gone is not there any more",
        "  host new is new",
        "  host web had roles web and CPUs all and a link of 100 Mbit/s, has roles web, app and CPUs 1, 2",
    ]
