"""`loadbook report --json`: stdout is one document about every report, made or not."""

from __future__ import annotations

import json
import re

from mock_project import Arm, make_project
from recorded_run import REPO
from report_maker import make_report

FEW = {"baseline": Arm(), "aa": Arm(check="aa"), "one": Arm(0.06, label="one")}


def test_report_document_has_an_object_per_report_and_keeps_the_exit_code(tmp_path):
    layout = make_project(tmp_path, FEW, name="quick", blocks=6, notebooks=("config_effects",))
    make_project(tmp_path, FEW, name="torn", blocks=6, notebooks=("run_quality",))
    make_project(tmp_path, FEW, name="unread", blocks=6, notebooks=("run_quality",))
    layout.run("torn", "20261120T101500").table("trials").write_bytes(b"not parquet")
    layout.run("unread", "20261120T101500").plan_json.write_text("{")
    made = make_report(layout, "--json")
    found = json.loads(made.output)
    assert (made.exit_code, found["index"]) == (3, str(layout.reports / "index.html"))
    reports = {report["study"]: report for report in found["reports"]}
    assert reports["quick"]["pages"] == [str(layout.reports / "quick.html")] and reports["quick"]["failed"] == []
    assert reports["quick"]["run"] == "20261120T101500" and "next" in reports["quick"]
    assert "run_quality: cell" in reports["torn"]["failed"][0] and reports["torn"]["pages"] == []
    assert set(reports["unread"]) == {"study", "pages", "failed", "next"} and reports["unread"]["failed"]
    assert f"index: {found['index']}" in made.stderr
    documented = (REPO / "docs/ci.md").read_text().split("\n- `reports` has")[1].split("\n- ")[0]
    assert set(re.findall(r"`(\w+)`", documented)) <= set(reports["quick"])
