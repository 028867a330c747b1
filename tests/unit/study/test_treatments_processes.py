"""What a study says of processes that a role does not have, or that are the system's, is refused when it is read."""

from __future__ import annotations

import pytest

from loadbook.core.errors import StudyError
from loadbook.study.reader import read_study

STUDY = """
schema = 1
name = "own"
question = "Does it?"
baseline = "a"
[roles.driver]
{driver}
[roles.web]
service = "nginx"
{web}
[factors]
sendfile = {{ levels = ["off", "on"] }}
{factor}
[treatments.a]
[treatments.b]
set = {{ sendfile = "on" }}
[workload]
tool = "wrk"
"""
QUOTAS = 'cpu = { role = "%s", of = "cpu_quota", levels = [1.0, 0.5] }'


@pytest.mark.parametrize(
    ("driver", "web", "factor", "path", "words"),
    [
        ("cpu_quota = 0.5", "", "", "roles.driver.cpu_quota", "this role has no service"),
        ('cpus = "0"', "", "", "roles.driver.cpus", "stand in the hosts file"),
        ('mode = "system"', "", "", "roles.driver.mode", "this role has no service"),
        ("", "", QUOTAS % "driver", "factors.cpu.of", "this role has no service"),
        ("", 'mode = "system"\ncpus = "0"', "", "roles.web.cpus", "goes without system mode"),
        ("", 'mode = "system"\nnofile = 1024', "", "roles.web.nofile", "goes without system mode"),
        ("", 'mode = "system"', QUOTAS % "web", "factors.cpu.of", "goes without system mode"),
        ("", 'mode = "systemd"', "", "roles.web.mode", "'managed' or 'system'"),
    ],
)
def test_process_settings_for_a_role_without_a_process_are_refused(tmp_path, driver, web, factor, path, words):
    (tmp_path / "own.toml").write_text(STUDY.format(driver=driver, web=web, factor=factor))
    with pytest.raises(StudyError) as refused:
        read_study(tmp_path / "own.toml")
    assert [problem.path for problem in refused.value.problems] == [path]
    assert words in refused.value.problems[0].message


def test_cpu_quota_of_a_service_is_accepted(tmp_path):
    (tmp_path / "own.toml").write_text(STUDY.format(driver="", web="cpu_quota = 0.5", factor=QUOTAS % "web"))
    assert read_study(tmp_path / "own.toml").roles["web"].cpu_quota == 0.5
