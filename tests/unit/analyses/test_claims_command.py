"""`loadbook claims`: each claim by the newest run that has its treatments."""

from __future__ import annotations

import json

import pytest

from command_line import exit_code
from mock_project import PUBLISHED, RUN, Arm, make_project

ARMS = {
    "baseline": Arm(label="baseline"),
    "tcp-nopush": Arm(0.06, {"tcp_nopush": True}, "tcp_nopush on"),
    "later": Arm(0.0, {"later": True}, "later"),
}
BETTER = PUBLISHED["claims"][0] | {"kind": "better"}
SOON = {"claim": "later is as fast", "kind": "equivalent", "treatment": "later", "against": "baseline"}
STUDY = """
schema = 1
name = "mock"
question = "Which one is faster?"
baseline = "baseline"
subsets = {{ default = ["baseline", "tcp-nopush"] }}
[roles.driver]
[roles.web]
service = "nginx"
vars = {{ tcp_nopush = false, later = false }}
[workload]
tool = "wrk"
connections = {connections}
duration_s = 4.0
path = "/index.html"
expect_bytes = 4
[factors]
tcp_nopush = {{ levels = [false, true] }}
later = {{ levels = [false, true] }}
[treatments]
baseline = {{ label = "baseline" }}
tcp-nopush = {{ label = "tcp_nopush on", set = {{ tcp_nopush = true }} }}
later = {{ set = {{ later = true }} }}
[published]
source = "{source}"
[[published.claims]]
claim = "{first}"
kind = "better"
treatment = "tcp-nopush"
against = "baseline"
value = 23871.8
against_value = 17687.9
errors = 7754
against_errors = 62488
offered_per_s = 25000
[[published.claims]]
claim = "later is as fast"
kind = "equivalent"
treatment = "later"
against = "baseline"
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with one run of the first two treatments, and its study file."""
    monkeypatch.setenv("LOADBOOK_HOME", str(tmp_path))

    def make(*, first: str = BETTER["claim"], connections: int = 100, run: bool = True):
        published = PUBLISHED | {"claims": [BETTER, SOON]}
        subsets = {"default": ["baseline", "tcp-nopush"]}
        layout = make_project(tmp_path, ARMS, name="mock", published=published, subsets=subsets)
        text = STUDY.format(source=PUBLISHED["source"], first=first, connections=connections)
        (layout.studies / "mock.toml").write_text(text)
        if not run:
            layout.run("mock", RUN).plan_json.unlink()
        return layout

    return make


def test_claims_command_lists_claims_with_verdict_evidence_and_run(project, monkeypatch, capsys):
    project()
    assert exit_code(monkeypatch, "claims") == 0
    out = capsys.readouterr().out.replace("\u00a0", " ")
    assert out.startswith("mock: A tuning article, Qiita, 2015-07-19\n✓ holds here")
    assert f"tcp_nopush helps most  (run {RUN})\n    tcp_nopush on is faster by " in out
    assert "Could the article show it? Yes. One run each: with the scatter seen here" in out
    assert (
        "· not yet run here        later is as fast\n    Not run: later. To run: loadbook run mock --subset all." in out
    )
    assert "Of 2 claims: 1 holds here (in direction, not in size); 1 not yet run here." in out


def test_claims_json_has_one_object_per_claim(project, monkeypatch, capsys):
    project(first="another sentence")
    assert exit_code(monkeypatch, "claims", "mock", "--json") == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["outcome"], first["run"], first["written_after_run"], first["size_met"]) == (
        "holds",
        RUN,
        True,
        False,
    )
    assert first["article_effect"] == pytest.approx(0.35, abs=0.001)
    assert (second["outcome"], second["run"], second["kind"]) == ("not-run", None, "equivalent")


def test_claims_command_without_a_run_lists_claims_as_not_run(project, monkeypatch, capsys):
    project(run=False)
    assert exit_code(monkeypatch, "claims") == 0
    out = capsys.readouterr().out
    assert out.count("not yet run here") == 3  # two claims and their sum
    assert "The study has no run. To run: loadbook run mock." in out


def test_claims_about_treatments_changed_since_the_run_count_as_not_run(project, monkeypatch, capsys):
    project(connections=50)
    assert exit_code(monkeypatch, "claims", "--json") == 0
    assert {row["outcome"] for row in json.loads(capsys.readouterr().out)} == {"not-run"}


def test_claims_command_reports_and_skips_an_unreadable_run(project, monkeypatch, capsys):
    layout = project()
    layout.run("mock", RUN).plan_json.write_text("{")
    assert exit_code(monkeypatch, "claims") == 0
    printed = capsys.readouterr()
    assert f"mock: run {RUN} is passed over: " in printed.err
    assert "not yet run here" in printed.out


def test_claims_command_reports_studies_without_claims_and_unknown_studies(project, monkeypatch, capsys):
    layout = project()
    path = layout.studies / "mock.toml"
    path.write_text(path.read_text().partition("[published]")[0])
    assert exit_code(monkeypatch, "claims") == 0
    assert capsys.readouterr().err == "No claims: none of these studies holds what an article says.\n"
    assert exit_code(monkeypatch, "claims", "mok") == 2
    assert "did you mean 'mock'?" in capsys.readouterr().err
