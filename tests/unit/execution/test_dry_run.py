"""`loadbook run --dry-run`: nothing is touched, every study is shown, and a real run asks what was shown."""

from __future__ import annotations

import re
import socket

import pytest

from command_line import exit_code
from loadbook.execution.dry_run import dry_run
from loadbook.execution.studies import load_study
from loadbook.study.plan import make_plan
from recorded_run import REPO, with_studies

THREE = REPO / "docs" / "three-hosts.toml"


@pytest.fixture
def no_network(monkeypatch):
    """Make every connection fail the test."""

    def refuse(*args, **kwargs):
        pytest.fail("a dry run touches no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_dry_run_of_an_interleaved_study_shows_the_turns_of_all_load_generators(
    monkeypatch, capsys, no_network, tmp_path
):
    layout = with_studies(tmp_path / "home")
    text = 'include = "aa.toml"\nname = "small"\nexecution = "interleaved"\nblocks = 3\n'
    (layout.studies / "small.toml").write_text(text)
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    assert exit_code(monkeypatch, "run", "small", "--hosts", str(THREE), "--dry-run") == 0
    displayed = capsys.readouterr().out
    assert "3 blocks of 2, all of a block at once, in turns" in displayed
    assert re.search(r"^== all treatments by turns: baseline, again: 3 blocks, each$", displayed, re.M)
    assert "== treatment" not in displayed
    for arm, treatment in ((0, "again|baseline"), (1, "again|baseline")):
        start = rf"^load1 +put jobs/RUN-t0001-a1-load/arm{arm}/cmd .*# ({treatment}): exec .*wrk -t1 -c50 "
        assert re.search(start, displayed, re.M)
    assert re.search(r"^load1 +job RUN-t0001-a1-load: perl interleave.pl schedule ", displayed, re.M)
    assert "for the length of slices; in the first block only" in displayed
    assert len(set(re.findall(r"http://192.0.2.31:(\d+)/index.html", displayed))) == 2


def test_dry_run_of_system_mode_may_load_the_page_with_the_config_id(tmp_path, no_network):
    layout = with_studies(tmp_path / "home")
    own = 'include = "aa.toml"\nname = "own"\nroles.web.mode = "system"\n'
    page = 'workload.path = "/.loadbook/config-id"\nworkload.expect_bytes = 29\n'
    (layout.studies / "own.toml").write_text(own + page)
    hosts = tmp_path / "hosts.toml"
    hosts.write_text(
        '[hosts.load]\naddress = "10.0.0.1"\nroles = ["driver"]\n'
        '[hosts.www]\naddress = "10.0.0.2"\nroles = ["web"]\nallow = ["system"]\n'
    )
    run, parts = dry_run(layout, make_plan(load_study(layout, "own")), hosts)
    assert run is not None
    assert not [part.missing for part in parts if part.missing]


def test_dry_run_prints_commands_and_missing_requirements(monkeypatch, capsys, no_network, tmp_path):
    monkeypatch.setenv("LOADBOOK_HOME", str(REPO))
    monkeypatch.chdir(REPO)
    assert exit_code(monkeypatch, "run", "nginx-directives", "--hosts", str(THREE), "--dry-run") == 0
    short = capsys.readouterr().out
    assert "nginx -t -q -p /tmp/loadbook-" in short
    assert "executed interleaved, as nothing speaks against it" in short
    assert re.search(r"^== all treatments by turns: baseline-auto, .*: 18 blocks, each$", short, re.M)
    assert exit_code(monkeypatch, "run", "nginx-directives-article", "--hosts", str(THREE), "--dry-run") == 0
    short = capsys.readouterr().out
    assert "executed plain, one trial after the other, instead of shared: " in short
    load = r"^load1 +job RUN-t0001-a1-load: httperf --server 192.0.2.31 --port 18080 --uri /index.html "
    assert re.search(load, short, re.M)
    assert re.search(r"^== treatment auto-nopush \(tcp_nopush on\): \d+ trials, each$", short, re.M)
    assert "worker_processes" not in short
    assert exit_code(monkeypatch, "run", "nginx-directives", "--hosts", str(THREE), "--dry-run", "--verbose") == 0
    assert "web1   | worker_processes auto;" in capsys.readouterr().out
    lonely = tmp_path / "hosts.toml"
    lonely.write_text('[hosts.load1]\nroles = ["driver"]\n')
    assert exit_code(monkeypatch, "run", "nginx-directives", "--hosts", str(lonely), "--dry-run") == 3
    seen = capsys.readouterr()
    assert "cannot be done here: no host has the role 'web'" in seen.out
    assert "treatments cannot be done on these hosts" in seen.err


def test_dry_run_without_a_lab_names_the_next_step(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("LOADBOOK_HOME", str(with_studies(tmp_path / "home").root))
    assert exit_code(monkeypatch, "run", "aa", "--dry-run") == 2
    assert "loadbook lab up" in capsys.readouterr().err


def test_docs_page_on_hosts_shows_the_tested_hosts_file():
    assert THREE.read_text().strip() in (REPO / "docs" / "hosts.md").read_text()
