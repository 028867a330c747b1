"""The metric of a study: CPU time per response of all services, or of those of one role."""

from __future__ import annotations

import pytest

from loadbook.core.errors import StudyError, UsageError
from loadbook.core.metrics import find_metric, get_metric
from loadbook.modes.interleaved.spec import plain_reasons
from loadbook.study.reader import setting_problems

TREATMENTS = """
[treatments.base]
[treatments.other]
workload = { connections = 20 }
"""
LB = """
[roles.lb]
variants = { proxy = { service = "haproxy", backends = ["web"] }, none = {} }
[factors.lb]
of = "variant"
role = "lb"
levels = ["none", "proxy"]
[treatments.balanced]
set = { lb = "proxy" }
"""


@pytest.mark.parametrize("metric", ["cpu_per_response", "cpu_per_response.web"])
def test_cpu_time_per_response_can_be_the_metric_of_plain_and_interleaved_studies(read, metric: str) -> None:
    study = read("", f'metric = "{metric}"\n')
    assert setting_problems(study) == []
    assert plain_reasons(study, study.treatments_in()) == []


@pytest.mark.parametrize("metric", ["cpu_per_response.wbe", "cpu_per_response.driver", "latency.web", "ok_per_s."])
def test_metric_of_a_role_without_service_is_refused(read, metric: str) -> None:
    with pytest.raises(StudyError) as refused:
        read("", f'metric = "{metric}"\n')
    assert [problem.path for problem in refused.value.problems] == ["metric"]


def test_metric_of_a_role_that_the_baseline_leaves_out_is_refused(read) -> None:
    with pytest.raises(StudyError, match="the baseline has no service of role lb"):
        read(LB, 'metric = "cpu_per_response.lb"\n')


def test_cpu_time_of_an_external_target_is_refused(read) -> None:
    with pytest.raises(StudyError, match="no role has a service whose CPU time could be measured"):
        read("", 'metric = "cpu_per_response"\n', web='external = "lb:80"')


def test_metric_of_a_role_has_the_role_in_its_words() -> None:
    metric = get_metric("cpu_per_response.web")
    assert (metric.kind, metric.better, metric.unit, metric.margin) == ("cost", "lower", "s", 0.02)
    assert metric.noun == metric.label == "CPU time of web per response"
    assert find_metric("latency.web") is None
    with pytest.raises(UsageError, match="latncy"):
        get_metric("latncy")
