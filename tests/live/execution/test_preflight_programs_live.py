"""What a study needs on the hosts of each role, the packages that bring it, and what a run says of what is wrong."""

from __future__ import annotations

import pytest

from loadbook.core.errors import PreflightError
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from recorded_run import with_studies
from toy_service import toy_service

REFUSING = """
[errors]
line = '^wrong:'
[errors.hints]
'no port' = "name the port"
"""
CHECK = """[commands]
check = ["sh", "-c", "echo note: hello >&2; echo wrong: no port >&2; exit 1"]"""
STUDY = """
schema = 1
name = "small"
question = "Which greeting is faster?"
baseline = "hello"
blocks = 1
[roles.driver]
[roles.web]
service = "toy"
[workload]
tool = "wrk"
path = "/index.html"
[factors]
greeting = { role = "web", levels = ["hello", "goodbye"] }
[treatments.hello]
[treatments.goodbye]
set = { greeting = "goodbye" }
"""


def test_preflight_shows_the_error_of_a_refused_configuration_once_and_what_to_do(lab, tmp_path):
    layout = with_studies(tmp_path / "home")
    toy_service(layout.studies)
    file = layout.studies / "services" / "toy" / "service.toml"
    file.write_text(file.read_text().replace("[commands]", CHECK) + REFUSING)
    (layout.studies / "small.toml").write_text(STUDY)
    with pytest.raises(PreflightError) as caught:
        run_study(layout, RunRequest("small", lab.hosts_file))
    problem = "host web: toy refuses its configuration (exit code 1): wrong: no port"
    assert caught.value.problems == [f"treatments hello, goodbye, role web: {problem}"]
    assert caught.value.message.count("no port") == 1 and "note: hello" not in caught.value.message
    assert caught.value.hint == "name the port"
