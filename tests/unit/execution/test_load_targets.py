"""Hosts that one might think loaded, and that are not: said by the plan and before a run."""

from __future__ import annotations

import pytest

from command_line import exit_code
from loadbook.execution.studies import load_study, unloaded_hosts
from loadbook.hosts.inventory import HostsFile
from loadbook.study.plan import make_plan
from recorded_run import with_studies

TWO = 'include = "aa.toml"\nname = "two"\n[roles.web]\nhosts = 2\n'
FILE = HostsFile.model_validate(
    {"hosts": {"load": {"roles": ["driver"]}, **{f"www{k}": {"roles": ["web"]} for k in (1, 2, 3)}}}
)


@pytest.fixture
def layout(tmp_path):
    made = with_studies(tmp_path / "home")
    (made.studies / "two.toml").write_text(TWO)
    return made


def test_unloaded_hosts_of_a_role_without_balancer_are_reported(layout, monkeypatch, capsys):
    printed = "all load goes to the first host of the role 'web', as nothing stands in front of them: baseline, again"
    assert list(unloaded_hosts(make_plan(load_study(layout, "two")))) == [printed]
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))
    assert exit_code(monkeypatch, "plan", "two") == 0
    assert f"note        {printed}" in capsys.readouterr().out


def test_unloaded_hosts_that_a_study_leaves_out_are_reported(layout):
    assert list(unloaded_hosts(make_plan(load_study(layout, "aa")), FILE)) == [
        "of the role 'web' the study takes 1 (its key `hosts`): www2, www3 left out"
    ]
    assert list(unloaded_hosts(make_plan(load_study(layout, "aa")))) == []


def test_hosts_behind_a_balancer_count_as_loaded(layout):
    assert list(unloaded_hosts(make_plan(load_study(layout, "lb-scaling")))) == []
