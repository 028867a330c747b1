"""The table [gate]: what it may say, and that nobody takes it for [gates]."""

from __future__ import annotations

import pytest

from loadbook.core.errors import StudyError
from loadbook.study.ci_policy import CiLimits
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


def test_a_study_has_no_build_gate_unless_it_says_so(read) -> None:
    assert read("").gate is None


def test_what_is_said_of_one_treatment_stands_before_what_is_said_of_all(read) -> None:
    gate = read(
        '[gate]\nundecided = "fail"\nmin_effect = -0.02\n'
        '[gate.treatments.one]\nundecided = "pass"\nfail_on = "small"\nmax_effect = 0.5\n'
    ).gate
    assert gate.limits_for("two") == CiLimits(undecided="fail", min_effect=-0.02)
    assert gate.limits_for("one") == CiLimits(undecided="pass", fail_on=("small",), min_effect=-0.02, max_effect=0.5)


@pytest.mark.parametrize(
    ("lines", "path", "words"),
    [
        ("[gate]", "gate.undecided", 'is required: "fail" or "pass"'),
        ('[gate]\nundecided = "maybe"', "gate.undecided", "'fail' or 'pass'"),
        ('[gate]\nundecided = "fail"\nfail_on = ["undecided"]', "gate.fail_on", 'undecided = "fail" or "pass"'),
        ('[gate]\nundecided = "fail"\nfail_on = ["worse"]', "gate.fail_on", 'is called "slower"'),
        ('[gate]\nundecided = "fail"\nfail_on = ["invalid"]', "gate.fail_on", "never passes"),
        ('[gate]\nundecided = "fail"\nfail_on = ["slow"]', "gate.fail_on.0", "'faster', 'slower', 'small'"),
        ('[gate]\nundecided = "fail"\nonly = ["oen"]', "gate.only.0", "did you mean 'one'?"),
        ('[gate]\nundecided = "fail"\nonly = "base"', "gate.only.0", "is the baseline"),
        ('[gate]\nundecided = "fail"\n[gate.treatments.aa]', "gate.treatments.aa", "must pass in any case"),
        ('[gate]\nundecided = "fail"\ndoubts = ["stolen"]', "gate.doubts.0", "did you mean 'stolen_cpu'?"),
        ('[gate]\nundecided = "fail"\ndoubts = ["x"]', "gate.doubts.0", "docs/gates.md has their names"),
        ('[gate]\nundecided = "fail"\nmin_effect = -2.0', "gate.min_effect", "greater than -1"),
        ('[gate]\nundecided = "fail"\nmin_effect = nan', "gate.min_effect", "finite"),
        ('[gate]\nundecided = "fail"\n[gate.metrics.latncy]', "gate.metrics.latncy", "did you mean 'latency'?"),
        ('[gate]\nundecided = "fail"\n[gate.metrics.ok_per_s]', "gate.metrics.ok_per_s", "is the study's own"),
        ('[gate]\nundecided = "fail"\n[gate.metrics.duration]', "gate.metrics.duration", "neither more nor less"),
        ('[gate]\nundecided = "fail"\n[gate.metrics."latency p_99"]', 'gate.metrics."latency p_99"', "must match"),
        (
            '[gate]\nundecided = "fail"\nmin_effect = 0.1\n[gate.treatments.one]\nmax_effect = 0.05',
            "gate",
            "treatments.one: min_effect 0.1 is not below max_effect 0.05",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_words(read, lines: str, path: str, words: str) -> None:
    with pytest.raises(StudyError) as error:
        read(lines)
    (problem,) = error.value.problems
    assert problem.path == path
    assert words in problem.message


def test_what_is_said_of_another_metric_is_said_of_it_alone(read) -> None:
    gate = read(
        '[gate]\nundecided = "fail"\nmin_effect = -0.02\n[gate.metrics."latency p99"]\nmax_effect = 0.1\n'
        '[gate.treatments.one]\nundecided = "pass"\n'
    ).gate
    assert gate.metric_limits("latency p99", "two") == CiLimits(undecided="fail", max_effect=0.1)
    assert gate.metric_limits("latency p99", "one").undecided == "pass"


def test_a_key_of_the_other_table_is_told_where_it_belongs(read) -> None:
    with pytest.raises(StudyError) as error:
        read('[gates]\nundecided = "fail"\n[gate]\nundecided = "fail"\naa_p = 0.05\nfial_on = []\n')
    messages = {p.path: p.message for p in error.value.problems}
    assert messages["gates.undecided"].startswith("is a key of [gate], what fails a build; [gates] holds the limits")
    assert messages["gate.aa_p"].startswith("is a key of [gates], the limits by which a trial counts; [gate] holds")
    assert messages["gate.fial_on"] == "unknown key; did you mean 'fail_on'?"


def test_against_the_best_everything_loses(read) -> None:
    with pytest.raises(StudyError, match="against the best, everything loses"):
        read('[gate]\nundecided = "pass"\n', top='contrasts = "best"\n')


def test_a_gate_does_not_change_what_is_measured(read) -> None:
    plain, gated = read(""), read('[gate]\nundecided = "pass"\n')
    assert study_sha256(plain) == study_sha256(gated)
    assert "gate" not in make_plan(plain).to_json()["study_spec"]
    assert parse_plan(make_plan(gated).to_json(), "plan.json").study.gate == gated.gate


def test_a_smoke_variant_is_gated_as_far_as_it_has_the_treatments(read) -> None:
    both = (
        '[gate]\nundecided = "pass"\n[gate.treatments.two]\nmin_effect = 0.1\n[gate.treatments.one]\nmin_effect = 0.2'
    )
    assert set(smoke_variant(read(both)).gate.treatments) == {"one"}
    assert smoke_variant(read('[gate]\nundecided = "pass"\nonly = ["two"]')).gate is None
