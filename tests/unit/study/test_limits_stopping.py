"""How a study declares when it stops: what is allowed, what is refused in words, what plan comes of it."""

from __future__ import annotations

import pytest

from loadbook.core.errors import StudyError, UsageError
from loadbook.study.limits import StoppingRule
from loadbook.study.model import Study
from loadbook.study.plan import additional_trials, make_plan
from loadbook.study.reader import smoke_variant

TREATMENTS = """
[treatments.base]
[treatments.other]
"""


def test_study_without_stopping_rule_has_fixed_blocks(read):
    study = read("")
    assert (study.stopping, study.blocks) == (StoppingRule(), 10)
    assert study.stopping.interim_blocks(10) == (10,)
    assert not study.stopping.allows_interim(20)


def test_planned_looks_set_the_number_of_blocks(read):
    study = read('[stopping]\nrule = "looks"\nlooks = [10, 20, 30]')
    assert (study.blocks, study.stopping.interim_blocks(30)) == (30, (10, 20, 30))
    assert study.stopping.describe() == "looks after 10, 20 and 30 blocks, each at p < 0.0221"
    assert [study.stopping.allows_interim(blocks) for blocks in (10, 14, 20, 40)] == [True, False, True, False]
    assert len(make_plan(study).trials) == 60
    assert Study.model_validate(study.model_dump(mode="json", by_alias=True)) == study
    with pytest.raises(UsageError, match=r"each at p < 0.0221: its plan has 30, not 12"):
        make_plan(study, blocks=12)
    short = smoke_variant(study)
    assert (short.blocks, short.stopping.rule, len(make_plan(short).trials)) == (6, "fixed", 12)


def test_always_valid_rule_allows_analyses_from_the_fifth_block_on(read):
    study = read('[stopping]\nrule = "always-valid"', top="blocks = 7\n")
    assert study.stopping.interim_blocks(7) == (5, 6, 7)
    assert study.stopping.interim_blocks(3) == (3,)
    assert study.stopping.allows_interim(8)


@pytest.mark.parametrize(
    ("lines", "path", "words"),
    [
        ('rule = "looks"', "stopping", "two to five looks, looks = [10, 20, 30] say"),
        ('rule = "looks"\nlooks = [10]', "stopping", "two to five looks"),
        ('rule = "looks"\nlooks = [5, 10, 15, 20, 25, 30]', "stopping", "(6 given)"),
        ('rule = "looks"\nlooks = [10, 20, 40]', "stopping", "[10, 20, 30] instead of [10, 20, 40]"),
        ('rule = "looks"\nlooks = [20, 10]', "stopping", "[20, 40] instead of [20, 10]"),
        ('rule = "looks"\nlooks = [4, 8]', "stopping.looks.0", "at least 5"),
        ('rule = "looks"\nlooks = "often"', "stopping.looks", "list"),
        ("looks = [10, 20]", "stopping", "looks go with rule = \"looks\", not with 'fixed'"),
        ('rule = "sometimes"', "stopping.rule", "'fixed', 'looks' or 'always-valid'"),
        ('rule = "looks"\nlook = [10, 20]', "stopping.look", "did you mean 'looks'?"),
    ],
)
def test_unknown_stopping_rule_is_refused(read, lines, path, words):
    with pytest.raises(StudyError) as refused:
        read(f"[stopping]\n{lines}")
    assert words in {p.path: p.message for p in refused.value.problems}[path]


def test_blocks_that_differ_from_the_last_look_are_refused(read):
    with pytest.raises(StudyError) as refused:
        read('[stopping]\nrule = "looks"\nlooks = [10, 20]', top="blocks = 12\n")
    assert {p.path: p.message for p in refused.value.problems} == {
        "blocks": "must be 20, the last of stopping.looks, or be left out, not 12"
    }


def test_factorial_with_looks_is_refused(read):
    factorial = '[factors.a]\nlevels = [1, 2]\n[factors.b]\nlevels = [1, 2]\n[factorial]\nfactors = ["a", "b"]\n'
    with pytest.raises(StudyError) as refused:
        read(f'{factorial}[stopping]\nrule = "always-valid"')
    assert "fixed number of blocks" in {p.path: p.message for p in refused.value.problems}["stopping.rule"]


def test_added_blocks_continue_the_seeded_order(read):
    study = read("")
    plan = make_plan(study, blocks=4)
    assert plan.trials + additional_trials(plan, 9) == make_plan(study, blocks=9).trials
