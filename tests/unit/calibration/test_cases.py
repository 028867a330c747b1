"""Cases of a calibration: the study that combines them with tools can be read, and each tool gets what it can make."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadbook.calibration.cases import CASES, STUDY_NAMES, case_workload, study_text, treatment_name, usable_cases
from loadbook.execution.studies import load_study, plan_study
from loadbook.store.paths import Layout
from loadbook.tools import base

RUN_TOOLS = list(base.run_tools())


@pytest.mark.parametrize("load_model", STUDY_NAMES)
def test_study_of_all_tools_is_valid_and_plain(tmp_path: Path, load_model: str) -> None:
    text = study_text(RUN_TOOLS, load_model, 3)
    assert text
    file = tmp_path / "calibration.toml"
    file.write_text(text)
    study = load_study(Layout(tmp_path), str(file))
    plan = plan_study(Layout(tmp_path), study)
    assert study.name == STUDY_NAMES[load_model] and plan.mode.name == "plain" and plan.blocks == 3
    for tool in RUN_TOOLS:
        for case in usable_cases(tool):
            if case.load_model == load_model:
                name = treatment_name(tool, case)
                assert study.workload_of(name) == case_workload(tool, case).model_copy(update={"role": "driver"})
                assert study.levels_of(name)["behaviour"] == case.behaviour


def test_each_tool_gets_the_cases_of_its_load_models() -> None:
    for tool in RUN_TOOLS:
        models = base.load_tool(tool).load_models
        assert {case.load_model for case in usable_cases(tool)} <= models
    assert len(usable_cases("vegeta")) == len(usable_cases("oha")) == len(CASES)
    assert {case.rate_per_s for case in usable_cases("wrk")} == {None}
    assert usable_cases("weighttp") == []  # needs a number of requests


def test_tools_without_a_case_make_no_study() -> None:
    assert study_text(["wrk"], "open", 1) is None
