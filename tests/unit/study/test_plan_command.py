"""`loadbook plan` checks a hosts file that is given, and says how trials will be executed."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from loadbook.cli import run as run_commands
from loadbook.core.errors import PreflightError
from recorded_run import with_studies


def test_plan_refuses_a_hosts_file_without_a_role_of_the_study(tmp_path) -> None:
    hosts = tmp_path / "hosts.toml"
    hosts.write_text('[hosts.a]\nroles = ["driver"]\naddress = "192.0.2.1"\n')
    with pytest.raises(PreflightError, match="no host has the role 'web'"):
        CliRunner().invoke(run_commands.plan, ["nginx-directives", "--hosts", str(hosts)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("slices", "turns"),
    [
        ("", "12 ms or more\n"),
        ("slices = [0.1]", "100 ms or more\n"),
        ("slices = [0.025, 0.1]", "25 and 100 ms or more, one length a block\n"),
    ],
)
def test_plan_states_the_lengths_of_turns(tmp_path, monkeypatch, slices: str, turns: str) -> None:
    layout = with_studies(tmp_path)
    (layout.studies / "mine.toml").write_text(
        f'include = "aa.toml"\nname = "mine"\nexecution = "interleaved"\n{slices}\n'
    )
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(run_commands.plan, ["mine"], catch_exceptions=False)
    assert f"execution   interleaved, as the study asks: treatments take turns of {turns}" in done.output


@pytest.mark.parametrize(
    ("study", "execution"),
    [
        ("aa", "interleaved, as nothing speaks against it: treatments take turns of 12 ms or more"),
        ("tool-agreement", "plain, one trial after the other, instead of interleaved: "),
        (
            "known-cost",
            "instead of interleaved: the load ends after a number of requests",
        ),
    ],
)
def test_plan_states_the_execution_and_its_reason(tmp_path, monkeypatch, study: str, execution: str) -> None:
    with_studies(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(run_commands.plan, [study], catch_exceptions=False)
    line = next(line for line in done.output.splitlines() if line.startswith("execution   "))
    assert execution in line


def test_plan_of_a_target_that_loadbook_does_not_start_has_no_line_on_its_memory(tmp_path, monkeypatch) -> None:
    layout = with_studies(tmp_path)
    (layout.studies / "shop.toml").write_text(
        """
        name = "shop"
        question = "Is it faster with more connections?"
        baseline = "fifty"
        [roles.driver]
        [roles.shop]
        external = "shop.example.net:80"
        [workload]
        tool = "wrk"
        target = "shop"
        [factors]
        connections = { of = "workload", levels = [50, 100] }
        [treatments.fifty]
        [treatments.hundred]
        set = { connections = 100 }
        """
    )
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(run_commands.plan, ["shop"], catch_exceptions=False)
    assert "execution   interleaved" in done.output
    assert "\nmemory " not in done.output
    assert "\nmemory " in CliRunner().invoke(run_commands.plan, ["aa"], catch_exceptions=False).output


def test_plan_of_a_plain_study_says_that_the_study_asks_for_it(tmp_path, monkeypatch) -> None:
    layout = with_studies(tmp_path)
    (layout.studies / "mine.toml").write_text('include = "aa.toml"\nname = "mine"\nexecution = "plain"\n')
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(run_commands.plan, ["mine"], catch_exceptions=False)
    assert "execution   plain, as the study asks\n" in done.output
