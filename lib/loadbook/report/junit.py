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
from loadbook.report.build_gate import Gated
from loadbook.stats.gate.case import Case, Outcome

# characters that XML 1.0 cannot hold, not even escaped
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
TAGS: dict[Outcome, str] = {"failed": "failure", "invalid": "error", "skipped": "skipped"}
MAX_NAME = 200


def junit(found: Sequence[Gated]) -> bytes:
    """Return the XML of judged runs, one suite each."""
    root = ET.Element("testsuites")
    for number, one in enumerate(found):
        _suite(root, one, number)
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _suite(root: ET.Element, found: Gated, number: int) -> None:
    data, cases = found.data, found.judged.cases
    count = {outcome: str(len(found.judged.of(outcome))) for outcome in TAGS}
    began, ended = data.run_json["started"], data.run_json["ended"]
    suite = ET.SubElement(
        root, "testsuite", id=str(number), package="loadbook", name=data.study.name, tests=str(len(cases)),
        failures=count["failed"], errors=count["invalid"], skipped=count["skipped"],
        hostname=_name(", ".join(data.run_json["hosts"])) or "localhost",
        timestamp=datetime.fromtimestamp(began, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        time=f"{max((ended or began) - began, 0):.3f}",
    )  # fmt: skip
    properties = ET.SubElement(suite, "properties")
    told = {"run": data.run, "metric": found.analysis.metric, "outcome": found.judged.outcome}
    for key, value in told.items():
        ET.SubElement(properties, "property", name=key, value=_text(value))
    for case in cases:
        _case(suite, data.study.name, case)
    ET.SubElement(suite, "system-out").text = _text("\n".join([*(case.told for case in cases), found.sentence]))
    ET.SubElement(suite, "system-err")


def _case(suite: ET.Element, study: str, case: Case) -> None:
    known = " ".join(filter(None, (case.treatment, case.metric)))
    name = known if case.kind == "comparison" and case.treatment else case.name
    element = ET.SubElement(suite, "testcase", classname=study, name=_name(name), time="0")
    if tag := TAGS.get(case.outcome):
        said = ET.SubElement(element, tag, message=_text(case.because or ""))
        said.text = _text(case.told)
        if tag != "skipped":
            said.set("type", case.row.verdict.kind if case.row and case.row.verdict else case.kind)


def _name(text: str) -> str:
    return _text(one_line(text))[:MAX_NAME]


def _text(text: str) -> str:
    return _NOT_XML.sub("", clean(text))
