"""The table [ci]: what it may say, and that nobody takes it for [gates]."""

from __future__ import annotations

import pytest

from loadbook.core.errors import StudyError
from loadbook.study.limits import CiLimits
from loadbook.study.plan import make_plan, parse_plan, study_sha256
from loadbook.study.reader import smoke_variant

TREATMENTS = """
[treatments.base]
[treatments.one]
[treatments.two]
[treatments.aa]
check = "aa"
same_as = "base"
"""


def test_study_has_no_ci_policy_by_default(read) -> None:
    assert read("").ci is None


def test_ci_policy_of_a_treatment_overrides_the_general_one(read) -> None:
    gate = read(
        '[ci]\nundecided = "fail"\nmin_effect = -0.02\n'
        '[ci.treatments.one]\nundecided = "pass"\nfail_on = "small"\nmax_effect = 0.5\n'
    ).ci
    assert gate.limits_for("two") == CiLimits(undecided="fail", min_effect=-0.02)
    assert gate.limits_for("one") == CiLimits(undecided="pass", fail_on=("small",), min_effect=-0.02, max_effect=0.5)


@pytest.mark.parametrize(
    ("lines", "path", "words"),
    [
        ("[ci]", "ci.undecided", 'is required: "fail" or "pass"'),
        ('[ci]\nundecided = "maybe"', "ci.undecided", "'fail' or 'pass'"),
        ('[ci]\nundecided = "fail"\nfail_on = ["undecided"]', "ci.fail_on", 'undecided = "fail" or "pass"'),
        ('[ci]\nundecided = "fail"\nfail_on = ["worse"]', "ci.fail_on", 'is called "slower"'),
        ('[ci]\nundecided = "fail"\nfail_on = ["invalid"]', "ci.fail_on", "never passes"),
        ('[ci]\nundecided = "fail"\nfail_on = ["slow"]', "ci.fail_on.0", "'faster', 'slower', 'small'"),
        ('[ci]\nundecided = "fail"\nonly = ["oen"]', "ci.only.0", "did you mean 'one'?"),
        ('[ci]\nundecided = "fail"\nonly = "base"', "ci.only.0", "is the baseline"),
        ('[ci]\nundecided = "fail"\n[ci.treatments.aa]', "ci.treatments.aa", "must pass in any case"),
        ('[ci]\nundecided = "fail"\ndoubts = ["stolen"]', "ci.doubts.0", "did you mean 'stolen_cpu'?"),
        ('[ci]\nundecided = "fail"\ndoubts = ["x"]', "ci.doubts.0", "docs/validity-rules.md has their names"),
        ('[ci]\nundecided = "fail"\nmin_effect = -2.0', "ci.min_effect", "greater than -1"),
        ('[ci]\nundecided = "fail"\nmin_effect = nan', "ci.min_effect", "finite"),
        ('[ci]\nundecided = "fail"\n[ci.metrics.latncy]', "ci.metrics.latncy", "did you mean 'latency'?"),
        ('[ci]\nundecided = "fail"\n[ci.metrics.ok_per_s]', "ci.metrics.ok_per_s", "is the study's own"),
        ('[ci]\nundecided = "fail"\n[ci.metrics.duration]', "ci.metrics.duration", "neither more nor less"),
        ('[ci]\nundecided = "fail"\n[ci.metrics."latency p_99"]', 'ci.metrics."latency p_99"', "must be a metric"),
        (
            '[ci]\nundecided = "fail"\nmin_effect = 0.1\n[ci.treatments.one]\nmax_effect = 0.05',
            "ci",
            "treatments.one: min_effect 0.1 is not below max_effect 0.05",
        ),
    ],
)
def test_contradictions_in_a_ci_policy_are_refused(read, lines: str, path: str, words: str) -> None:
    with pytest.raises(StudyError) as error:
        read(lines)
    (problem,) = error.value.problems
    assert problem.path == path
    assert words in problem.message


def test_ci_policy_of_a_metric_applies_only_to_that_metric(read) -> None:
    gate = read(
        '[ci]\nundecided = "fail"\nmin_effect = -0.02\n[ci.metrics."latency p99"]\nmax_effect = 0.1\n'
        '[ci.treatments.one]\nundecided = "pass"\n'
    ).ci
    assert gate.metric_limits("latency p99", "two") == CiLimits(undecided="fail", max_effect=0.1)
    assert gate.metric_limits("latency p99", "one").undecided == "pass"


def test_error_on_a_misspelt_key_names_the_most_similar_key(read) -> None:
    with pytest.raises(StudyError) as error:
        read('[ci]\nundecided = "fail"\nfial_on = []\n')
    messages = {p.path: p.message for p in error.value.problems}
    assert messages["ci.fial_on"] == "unknown key; did you mean 'fail_on'?"


def test_ci_policy_with_best_contrasts_is_refused(read) -> None:
    with pytest.raises(StudyError, match="against the best, everything loses"):
        read('[ci]\nundecided = "pass"\n', top='contrasts = "best"\n')


def test_ci_policy_does_not_change_the_study_hash(read) -> None:
    plain, gated = read(""), read('[ci]\nundecided = "pass"\n')
    assert study_sha256(plain) == study_sha256(gated)
    assert "gate" not in make_plan(plain).to_json()["study_spec"]
    assert parse_plan(make_plan(gated).to_json(), "plan.json").study.ci == gated.ci


def test_ci_policy_of_a_smoke_variant_covers_only_its_treatments(read) -> None:
    both = '[ci]\nundecided = "pass"\n[ci.treatments.two]\nmin_effect = 0.1\n[ci.treatments.one]\nmin_effect = 0.2'
    assert set(smoke_variant(read(both)).ci.treatments) == {"one"}
    assert smoke_variant(read('[ci]\nundecided = "pass"\nonly = ["two"]')).ci is None
