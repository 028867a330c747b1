"""Texts within the results of Ansible's tasks are read as those of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadbook.ingestion.recognise import find_reports
from loadbook.ingestion.task_results import find_outputs
from tool_captures import FIXTURES

TEXTS = [
    "ab/2.3--n20000_c50.stdout", "h2load/1.52.0--h1_n20000.stdout", "hey/0.1.5--clean_text.stdout",
    "httperf/0.9.0--r8000_n40000.stdout", "k6/1.8.1--text.stdout", "vegeta/12.13.0--every_text.stdout",
    "weighttp/0.4--plain_n20000_c50_t2.stdout", "wrk/4.1.0--tls.stdout", "wrk2/4.0.0--R2000_d14_latency.stdout",
    "locust/2.47.0--clean_csv.stderr", "gatling/3.10.5--closed_both.stdout",
    "autocannon/9.0.0--mix404_plain_text.stderr",
]  # fmt: skip


def wrapped(text: str, form: str) -> str:
    lines = text.splitlines()
    if form == "module":
        return json.dumps({"changed": True, "stdout": text.rstrip("\n"), "stdout_lines": lines, "stderr": ""})
    if form == "debug":
        return f"TASK [debug] ***\nok: [h1] => {json.dumps({'out.stdout_lines': lines}, indent=4)}\n"
    if form == "stderr":
        return f"h1 | CHANGED => {json.dumps({'rc': 0, 'stdout': '', 'stderr': text}, indent=4)}\n"
    hosts = {"a": {"stdout": text}, "b": {"stdout": text}}
    return json.dumps({"plays": [{"tasks": [{"hosts": hosts}]}]}, indent=1)


@pytest.mark.parametrize("form", ["module", "debug", "stderr", "two hosts"])
@pytest.mark.parametrize("name", TEXTS)
def test_text_in_the_result_of_a_task_is_read(name: str, form: str, tmp_path: Path) -> None:
    (expected,) = find_reports(FIXTURES / name)
    (tmp_path / "out.json").write_text(wrapped((FIXTURES / name).read_text(), form))
    found = find_reports(tmp_path / "out.json")
    assert [report.measurements for report in found] == [expected.measurements] * (2 if form == "two hosts" else 1)
    assert all(report.taken_off == ("JSON of Ansible around it",) for report in found)


@pytest.mark.parametrize("text", ["", '{"stdout": ""}', '{"stdout": 5}', '{"a": "stdout:"}', '{"stdout": "cut'])
def test_other_json_has_no_outputs(text: str) -> None:
    assert find_outputs(text) == []


@pytest.mark.parametrize("name", TEXTS[-6:])
def test_marks_of_preformatted_text_are_taken_off(name: str, tmp_path: Path) -> None:
    (expected,) = find_reports(FIXTURES / name)
    text = (FIXTURES / name).read_text()
    for number, page in enumerate((f"<pre>\n{text}</pre>\n", f'<p>Run</p>\n<pre><code class="x">{text}</code></pre>')):
        (tmp_path / f"{number}.html").write_text(page)
        assert [found.measurements for found in find_reports(tmp_path / f"{number}.html")] == [expected.measurements]
