"""A judged run as JUnit XML: a suite per study, a case per question of its build gate.

What it may hold is what both schemas in use allow: that of Jenkins (xunit plugin, junit-10.xsd) and the stricter one
of Ant's tasks (windyroad/JUnit-Schema), which wants every suite's host, time and outputs, and no output of a case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from loadbook.core.text import clean, one_line
from loadbook.report.build_gate import CiReport
from loadbook.stats.gate.case import CiCase, CaseOutcome

# characters that XML 1.0 cannot hold, not even escaped
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
OUTCOME_TAGS: dict[CaseOutcome, str] = {"failed": "failure", "invalid": "error", "skipped": "skipped"}
MAX_TEST_NAME = 200


def junit_xml(found: Sequence[CiReport]) -> bytes:
    """Return the XML of judged runs, one suite each."""
    root = ET.Element("testsuites")
    for number, one in enumerate(found):
        _add_suite(root, one, number)
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _add_suite(root: ET.Element, found: CiReport, number: int) -> None:
    data, cases = found.data, found.result.cases
    count = {outcome: str(len(found.result.cases_with(outcome))) for outcome in OUTCOME_TAGS}
    began, ended = data.run_json["started"], data.run_json["ended"]
    suite = ET.SubElement(
        root, "testsuite", id=str(number), package="loadbook", name=data.study.name, tests=str(len(cases)),
        failures=count["failed"], errors=count["invalid"], skipped=count["skipped"],
        hostname=_test_name(", ".join(data.run_json["hosts"])) or "localhost",
        timestamp=datetime.fromtimestamp(began, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        time=f"{max((ended or began) - began, 0):.3f}",
    )  # fmt: skip
    properties = ET.SubElement(suite, "properties")
    properties_by_name = {"run": data.run, "metric": found.analysis.metric, "outcome": found.result.outcome}
    for key, value in properties_by_name.items():
        ET.SubElement(properties, "property", name=key, value=_xml_text(value))
    for case in cases:
        _add_case(suite, data.study.name, case)
    ET.SubElement(suite, "system-out").text = _xml_text("\n".join([*(case.full_sentence for case in cases), found.sentence]))
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
