"""The CI result of a run: JSON summary, JUnit XML, and the sentence on its page.

The JUnit file has one suite per run and one case per question of the CI policy. It is valid for both common schemas:
that of Jenkins (xunit plugin, junit-10.xsd) and the stricter one of Ant (windyroad/JUnit-Schema), which requires host,
time and outputs of every suite and forbids outputs of a case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any
from xml.etree import ElementTree as ET

from loadbook.core.text import clean, one_line
from loadbook.core.units import utc_text
from loadbook.stats.ci import BUILD_GATE, CaseOutcome, CiCase, CiResult, assess_run
from loadbook.stats.results import Analysis
from loadbook.store.tables import RunData
from loadbook.study.limits import CiPolicy

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class CiReport:
    """A run with its CI result; `late`: the CI policy was written after the run was planned."""

    data: RunData
    policy: CiPolicy
    analysis: Analysis
    result: CiResult
    late: bool = False

    @property
    def sentence(self) -> str:
        """The result as a sentence, with a remark if the policy was written after the run was planned."""
        return f"{BUILD_GATE}: {self.outcome_text}"

    @property
    def outcome_text(self) -> str:
        """The sentence without the name of the build gate."""
        return self.result.outcome_text + (" [ci] was written after this run was planned." if self.late else "")


def evaluate_ci(data: RunData, written_since: CiPolicy | None = None) -> CiReport | None:
    """Assess a run by the CI policy that its study had when the run was planned; None if there is no policy.

    Parameters
    ----------
    written_since : the policy in the present study file, used if the run was planned without a policy.
    """
    policy = data.study.ci or written_since
    if policy is None:
        return None
    from loadbook.stats.analyse import analyse_strata

    others = {}
    for name in policy.metrics:
        metric, _, statistic = name.partition(" ")
        others[name] = analyse_strata(data, metric=metric, statistic=statistic or None, limited=False)
    analysis = analyse_strata(data, limited=False)
    return CiReport(data, policy, analysis, assess_run(policy, analysis, data, others), late=data.study.ci is None)


def ci_document(report: CiReport) -> dict[str, Any]:
    """Return the JSON summary (docs/ci.md lists its fields); effects and intervals are ratios minus 1."""
    data, result = report.data, report.result
    numbers = {word: len(result.cases_with(word)) for word in ("passed", "failed", "invalid", "skipped")}
    return {
        "schema": SCHEMA_VERSION,
        "study": data.study.name,
        "run": data.run,
        "question": data.study.question,
        "metric": report.analysis.metric,
        "statistic": report.analysis.statistic,
        "margin": report.analysis.margin,
        "started": data.run_record.started,
        "ended": data.run_record.ended,
        "outcome": result.outcome,
        "exit_code": result.exit_code,
        "sentence": report.sentence,
        "gate": report.policy.model_dump(mode="json", exclude_none=True),
        "written_after_run": report.late,
        "numbers": numbers,
        "cases": [_case_record(case) for case in result.cases],
    }


def ci_summary(report: CiReport) -> dict[str, Any]:
    """Return `outcome`, `exit_code` and `sentence` of a CI result, for the JSON summary of a report."""
    return {"outcome": report.result.outcome, "exit_code": report.result.exit_code, "sentence": report.sentence}


def _case_record(case: CiCase) -> dict[str, Any]:
    """Return a case with the numbers of its comparison; the numbers are null if the comparison is invalid."""
    record = asdict(case)
    del record["row"]
    if case.row is None or case.row.verdict is None:
        return record
    verdict, comparison = case.row.verdict, asdict(case.row.verdict.comparison)
    keys = ("effect", "ci95", "ci90", "p", "p_adjusted")
    numbers = {key: None if verdict.kind == "invalid" else comparison[key] for key in keys}
    question = {"metric": comparison["metric"], "statistic": comparison["statistic"], "against": comparison["baseline"]}
    return record | question | {"verdict": verdict.kind, **numbers, "blocks": comparison["blocks"]}


# characters that XML 1.0 forbids even if escaped
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
OUTCOME_TAGS: dict[CaseOutcome, str] = {"failed": "failure", "invalid": "error", "skipped": "skipped"}
MAX_TEST_NAME = 200


def junit_xml(reports: Sequence[CiReport]) -> bytes:
    """Return the JUnit XML of assessed runs, one suite each."""
    root = ET.Element("testsuites")
    for number, one in enumerate(reports):
        _add_suite(root, one, number)
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _add_suite(root: ET.Element, report: CiReport, number: int) -> None:
    data, cases = report.data, report.result.cases
    count = {outcome: str(len(report.result.cases_with(outcome))) for outcome in OUTCOME_TAGS}
    began, ended = data.run_record.started, data.run_record.ended
    suite = ET.SubElement(
        root, "testsuite", id=str(number), package="loadbook", name=data.study.name, tests=str(len(cases)),
        failures=count["failed"], errors=count["invalid"], skipped=count["skipped"],
        hostname=_test_name(", ".join(data.run_record.hosts)) or "localhost",
        timestamp=utc_text(began, "%Y-%m-%dT%H:%M:%S"),
        time=f"{max((ended or began) - began, 0):.3f}",
    )  # fmt: skip
    properties = ET.SubElement(suite, "properties")
    for key, value in {"run": data.run, "metric": report.analysis.metric, "outcome": report.result.outcome}.items():
        ET.SubElement(properties, "property", name=key, value=_xml_text(value))
    for case in cases:
        _add_case(suite, data.study.name, case)
    sentences = [*(case.full_sentence for case in cases), report.sentence]
    ET.SubElement(suite, "system-out").text = _xml_text("\n".join(sentences))
    ET.SubElement(suite, "system-err")


def _add_case(suite: ET.Element, study: str, case: CiCase) -> None:
    known = " ".join(filter(None, (case.treatment, case.metric)))
    name = known if case.kind == "comparison" and case.treatment else case.name
    element = ET.SubElement(suite, "testcase", classname=study, name=_test_name(name), time="0")
    if tag := OUTCOME_TAGS.get(case.outcome):
        child = ET.SubElement(element, tag, message=_xml_text(case.because or ""))
        child.text = _xml_text(case.full_sentence)
        if tag != "skipped":
            child.set("type", case.row.verdict.kind if case.row and case.row.verdict else case.kind)


def _test_name(text: str) -> str:
    return _xml_text(one_line(text))[:MAX_TEST_NAME]


def _xml_text(text: str) -> str:
    return _NOT_XML.sub("", clean(text))
