"""`loadbook gate`: exit codes, what it prints, JUnit XML, the JSON summary, the line on the page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from command_line import exit_code
from loadbook.analyses.effects.page import EffectsPage
from loadbook.batch.index import write_index
from loadbook.report.ci import ci_document, ci_summary, evaluate_ci, junit_xml
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run
from loadbook.store.trial_record import read_json, write_json
from mock_project import RUN, Arm, make_project

STUDY = "mock"
ARMS = {
    "baseline": Arm(label="baseline"),
    "aa": Arm(check="aa", label="baseline, again"),
    "fast": Arm(0.06, {"a": True}, "a on"),
    "slow": Arm(-0.05, {"b": True}, "b on"),
    "odd": Arm(0.0, {"c": True}, "c on", invalid="answers 24 bytes where the baseline answers 4"),
}
FINE = {name: ARMS[name] for name in ("baseline", "aa", "fast")}
# what Ant's schema of JUnit files demands (github.com/windyroad/JUnit-Schema); Jenkins' own allows it, too
SUITE = {"id", "package", "name", "timestamp", "hostname", "tests", "failures", "errors", "skipped", "time"}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Make a project with one run of these arms, planned with this gate, and stand in it."""

    def project(arms: dict[str, Arm], gate: dict | None = None, **more) -> Layout:
        layout = make_project(tmp_path, arms, name=STUDY, traces=False, **({"ci": gate} if gate else {}) | more)
        monkeypatch.chdir(tmp_path)
        return layout

    return project


@pytest.mark.parametrize(
    ("arms", "gate", "code", "words"),
    [
        (FINE, {"undecided": "fail"}, 0, "Build gate: passed, its comparison is acceptable."),
        (ARMS, {"undecided": "fail", "only": ["fast", "slow"]}, 1, "Build gate: failed. b on is slower by "),
        (ARMS, {"undecided": "fail"}, 4, "Build gate: no verdict. c on: not compared: "),
    ],
)
def test_gate_command_exit_codes_and_last_line(project, monkeypatch, capsys, arms, gate, code, words) -> None:
    project(arms, gate)
    assert exit_code(monkeypatch, "gate", STUDY) == code
    displayed = capsys.readouterr()
    assert displayed.out.splitlines()[-1].startswith(words)
    assert displayed.err == "" or "[ci] of the study file" in displayed.err


def test_gate_command_prints_a_line_per_question_of_the_policy(project, monkeypatch, capsys) -> None:
    project(ARMS, {"undecided": "fail", "only": ["slow"]})
    exit_code(monkeypatch, "gate", STUDY)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == [
        "skipped", "failed", "skipped", "passed", "skipped", "passed", "passed", "skipped",
    ]  # fmt: skip
    assert lines[1].endswith("Slower is unacceptable.")
    assert lines[3].startswith("passed   baseline, again: passed.")
    assert lines[5].startswith("passed   trials: ")


def test_gate_command_without_policy_names_the_next_step(project, monkeypatch, capsys) -> None:
    project(FINE)
    assert exit_code(monkeypatch, "gate", STUDY) == 2
    printed = capsys.readouterr().err
    assert "study 'mock' has no [ci]" in printed
    assert 'undecided = "fail" or "pass"' in printed


def write_study(layout: Layout, gate: str) -> None:
    (layout.studies / f"{STUDY}.toml").write_text(
        f'name = "{STUDY}"\nquestion = "Is it?"\nbaseline = "baseline"\n[roles.driver]\n[roles.web]\n'
        f'service = "nginx"\n[workload]\ntool = "wrk"\n[treatments]\nbaseline = {{}}\nfast = {{}}\n{gate}\n'
    )


def test_gate_command_reports_a_policy_written_after_the_run(project, monkeypatch, capsys) -> None:
    write_study(project(FINE), '[ci]\nundecided = "fail"')
    assert exit_code(monkeypatch, "gate", STUDY, "--json") == 0
    displayed = capsys.readouterr()
    assert json.loads(displayed.out)["written_after_run"] is True
    assert "was planned without [ci]" in displayed.err


def test_gate_command_uses_the_policy_with_which_the_run_was_planned(project, monkeypatch, capsys) -> None:
    write_study(project(FINE, {"undecided": "fail"}), '[ci]\nundecided = "fail"\nfail_on = ["faster"]')
    assert exit_code(monkeypatch, "gate", STUDY) == 0
    assert "it counts from the next run on" in capsys.readouterr().err
    write_study(Layout(Path.cwd()), '[ci]\nundecided = "x"')
    assert exit_code(monkeypatch, "gate", STUDY) == 2
    assert "ci.undecided" in capsys.readouterr().err


def test_plan_command_prints_the_ci_policy(project, monkeypatch, capsys) -> None:
    write_study(project(FINE), '[ci]\nundecided = "fail"')
    assert exit_code(monkeypatch, "plan", STUDY) == 0
    assert "\nbuild gate  slower or more-errors fails; undecided fails\n" in capsys.readouterr().out


def test_gate_command_fails_an_unfinished_run(project, monkeypatch, capsys) -> None:
    paths = project(FINE, {"undecided": "pass"}).run(STUDY, RUN)
    write_json(paths.run_json, read_json(paths.run_json) | {"ended": None})
    assert exit_code(monkeypatch, "gate", STUDY) == 4
    assert "the run is not finished" in capsys.readouterr().out.lower()


def test_gate_json_summary_matches_its_documentation(project, monkeypatch, capsys) -> None:
    project(ARMS, {"undecided": "fail", "only": ["fast", "slow"], "min_effect": -0.01})
    assert exit_code(monkeypatch, "gate", STUDY, "--json") == 1
    displayed = capsys.readouterr()
    found = json.loads(displayed.out)
    assert displayed.err.splitlines()[-1].startswith("Build gate: failed. ")
    page = (Path(__file__).parents[3] / "docs/ci.md").read_text()
    keys = {*found, *(key for case in found["cases"] for key in case)}
    assert [key for key in keys if f"`{key}`" not in page] == []
    assert (found["schema"], found["outcome"], found["exit_code"]) == (1, "failed", 1)
    assert found["gate"]["min_effect"] == -0.01
    (slow,) = [case for case in found["cases"] if case["treatment"] == "slow"]
    assert slow["outcome"] == "failed"
    assert slow["ci95"][0] < slow["effect"] < slow["ci95"][1] < -0.01
    (odd,) = [case for case in found["cases"] if case["treatment"] == "odd"]
    assert (odd["outcome"], odd["verdict"], odd["effect"]) == ("skipped", "invalid", None)
    assert sum(found["numbers"].values()) == len(found["cases"])


def test_gate_junit_file_has_a_case_per_question(project, monkeypatch, tmp_path) -> None:
    project(ARMS, {"undecided": "fail"})
    assert exit_code(monkeypatch, "gate", STUDY, "--junit", "junit.xml") == 4
    (suite,) = ET.parse(tmp_path / "junit.xml").getroot()
    assert set(suite.attrib) == SUITE
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
    assert [child.tag for child in suite] == ["properties", *["testcase"] * 8, "system-out", "system-err"]
    assert {key: suite.attrib[key] for key in ("name", "tests", "failures", "errors", "skipped", "time")} == {
        "name": STUDY, "tests": "8", "failures": "1", "errors": "1", "skipped": "2", "time": "5160.000",
    }  # fmt: skip
    cases = {case.attrib["name"]: case for case in suite.iter("testcase")}
    assert all(set(case.attrib) == {"classname", "name", "time"} for case in cases.values())
    assert len(cases) == 8
    (failure,) = cases["slow"]
    assert failure.attrib == {"message": "slower is unacceptable", "type": "worse"}
    assert failure.text.startswith("b on is slower by ")
    (error,) = cases["odd"]
    assert (error.tag, error.attrib["type"]) == ("error", "invalid")
    assert "skipped" in [child.tag for child in cases["positive control"]]
    assert len(cases["fast"]) == 0


def test_gate_command_judges_percentiles_beside_the_rate(project, monkeypatch, tmp_path, capsys) -> None:
    project(FINE, {"undecided": "pass", "metrics": {"latency p99": {"max_effect": -0.5}}})
    assert exit_code(monkeypatch, "gate", STUDY, "--junit", "j.xml", "--json") == 1
    displayed = capsys.readouterr()
    assert "failed   a on (latency p99): undecided: " in displayed.err
    names = [case.attrib["name"] for case in ET.parse(tmp_path / "j.xml").getroot().iter("testcase")]
    assert names[:2] == ["fast", "fast latency p99"]
    cases = json.loads(displayed.out)["cases"]
    assert [(c["metric"], c["statistic"]) for c in cases[:2]] == [("ok_per_s", "value"), ("latency", "p99")]


def test_gate_files_escape_hostile_names(project, monkeypatch, tmp_path, capsys) -> None:
    bad = "<b>&\x1b[31m\x00\x0b\ufffe\uffff\U0001f600 \u202e\"']]>\n- x"
    arms = FINE | {"slow": Arm(-0.05, {"b": True}, bad)}
    project(arms, {"undecided": "pass"}, doubt=None)
    assert exit_code(monkeypatch, "gate", STUDY, "--junit", "j.xml", "--json") == 1
    written = (tmp_path / "j.xml").read_bytes().decode()
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", written)
    (failure,) = ET.fromstring(written.encode()).iter("failure")
    assert failure.text.startswith("<b>&[31m\U0001f600 \"']]>\n- x is slower by ")
    assert json.loads(capsys.readouterr().out)["outcome"] == "failed"


@pytest.mark.parametrize("words", [("--json", "s.json"), ("--json=s.json",), ("--junit", "j.xml", "--json", "-")])
def test_gate_command_with_a_file_after_json_names_the_redirection(project, monkeypatch, capsys, words) -> None:
    project(FINE, {"undecided": "pass"})
    assert exit_code(monkeypatch, "gate", STUDY, *words) == 2
    printed = capsys.readouterr().err
    assert "--json takes no FILE" in printed and printed.endswith("next: loadbook gate STUDY --json > FILE\n")
    assert not Path("s.json").exists() and not Path("j.xml").exists()


@pytest.mark.parametrize("words", [("--json", "--nosuch"), ("x", "y"), ("--json", "--run")])
def test_gate_command_with_other_mistakes_says_nothing_of_json(project, monkeypatch, capsys, words) -> None:
    project(FINE, {"undecided": "pass"})
    assert exit_code(monkeypatch, "gate", STUDY, *words) == 2
    assert "takes no FILE" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--junit", "-", "--json"), ("--junit", "/dev/null"), ("--junit", "studies")])
def test_gate_command_refuses_equal_or_special_output_paths(project, monkeypatch, capsys, words) -> None:
    project(FINE, {"undecided": "pass"})
    assert exit_code(monkeypatch, "gate", STUDY, *words) == 2
    assert not Path("/dev/null").is_file()


def test_report_states_in_a_line_whether_the_build_passes(project) -> None:
    layout = project(ARMS, {"undecided": "fail", "only": ["slow"]})
    page = EffectsPage(load_run(layout, STUDY))
    assert "✕ Build gate: failed. b on is slower by " in page.trust().text
    assert "<b>✕ Build gate</b>: failed. b on is slower by " in page.trust().html
    assert page.summary()["gate"] == ci_summary(evaluate_ci(page.run_data))
    write_json(layout.reports / f"{STUDY}.summary.json", page.summary())
    assert "✕ build gate" in write_index(layout.reports).read_text()


def test_report_without_ci_policy_has_no_build_line(project) -> None:
    page = EffectsPage(load_run(project(FINE), STUDY))
    assert "Build gate" not in page.trust().text
    assert "gate" not in page.summary()


def test_gate_junit_file_has_a_suite_per_run(project) -> None:
    found = evaluate_ci(load_run(project(FINE, {"undecided": "fail"}), STUDY))
    root = ET.fromstring(junit_xml([found, found]))
    assert [suite.attrib["id"] for suite in root] == ["0", "1"]


def test_gate_json_summary_has_no_numbers_of_a_comparison_that_is_invalid(project) -> None:
    data = load_run(project(FINE, {"undecided": "fail"}), STUDY)
    status = data.trials["response_status"].where(data.trials["treatment"] != "fast", 404)
    found = ci_document(evaluate_ci(replace(data, trials=data.trials.assign(response_status=status))))
    (fast,) = [case for case in found["cases"] if case["treatment"] == "fast"]
    assert (fast["outcome"], fast["verdict"]) == ("invalid", "invalid")
    assert [fast[key] for key in ("effect", "ci95", "ci90", "p", "p_adjusted")] == [None] * 5


def test_gate_junit_file_has_no_negative_time_if_the_clock_was_set_back(project) -> None:
    data = load_run(project(FINE, {"undecided": "fail"}), STUDY)
    back = data.run_record.model_copy(update={"ended": data.run_record.started - 60.0})
    (suite,) = ET.fromstring(junit_xml([evaluate_ci(replace(data, run_record=back))]))
    assert float(suite.attrib["time"]) == 0


def test_gate_command_uses_the_baseline_of_each_stratum(project) -> None:
    arms = {
        "near": Arm(0.0, {"far": False}),
        "far": Arm(-0.5, {"far": True}),
        "far-b": Arm(-0.5, {"far": True, "b": True}),
    }
    found = evaluate_ci(load_run(project(arms, {"undecided": "fail"}, stratify_by="far"), STUDY))
    assert {case.treatment for case in found.result.cases if case.kind == "comparison"} == {"far-b"}
    assert found.result.exit_code in (0, 1)
    assert "slower" not in found.result.sentence
