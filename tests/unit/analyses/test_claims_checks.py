"""Claim replay: every kind of check on runs whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claim_runs import TWO_BY_TWO, Run, claim, run_of, study_of
from loadbook.analyses.claims.checks import check_best, check_claims, check_interaction
from loadbook.analyses.claims.compute import ClaimRun
from loadbook.stats.analyse import analyse

ARMS = {
    "base": {"label": "baseline"},
    "fast": {"effect": 0.06},
    "even": {"sd": 0.002},
    "bit": {"effect": 0.010, "sd": 0.002},
    "noisy": {"sd": 0.08},
    "slow": {"effect": -0.05},
}
RATIO = {"value": 25_000.0, "against_value": 20_000.0}


def assessed(arms, *claims, **options):
    study = study_of(arms, *claims)
    return check_claims(study, run_of(study, arms, **options))


def outcomes(arms, *claims, **options):
    return [one.finding.outcome for one in assessed(arms, *claims, **options)]


VALUES = [
    ("better", "fast", "base", "holds"),
    ("better", "bit", "base", "holds"),
    ("better", "even", "base", "contradicted"),
    ("better", "slow", "base", "contradicted"),
    ("better", "noisy", "base", "undecided"),
    ("worse", "slow", "base", "holds"),
    ("worse", "slow", "fast", "holds"),
    ("worse", "fast", "slow", "contradicted"),
    ("no-loss", "even", "base", "holds"),
    ("no-loss", "fast", "base", "holds"),
    ("no-loss", "slow", "base", "contradicted"),
    ("no-loss", "noisy", "even", "undecided"),
    ("equivalent", "even", "base", "holds"),
    ("equivalent", "bit", "even", "holds"),
    ("equivalent", "fast", "slow", "contradicted"),
    ("equivalent", "noisy", "base", "undecided"),
]


@pytest.fixture(scope="module")
def values():
    claims = [claim(kind, one, other) for kind, one, other, _ in VALUES]
    return assessed(ARMS, *claims, seed=1)


@pytest.mark.parametrize(("number", "expected"), list(enumerate(VALUES)), ids=lambda v: str(v))
def test_claim_about_a_value_is_checked_by_its_interval(values, number, expected):
    assert values[number].finding.outcome == expected[-1], values[number].finding.evidence


def test_claim_size_is_judged_only_if_its_direction_holds():
    claims = [
        claim("better", "fast", "base", value=1.06, against_value=1.0),
        claim("better", "fast", "base", **RATIO),
        claim("better", "slow", "base", **RATIO),
        claim("better", "fast", "base", value=1.03, against_value=1.0, offered_per_s=1.04),
        claim("better", "fast", "base", value=0.94, against_value=1.0),
    ]
    found = [one.finding for one in assessed(ARMS, *claims, only=("base", "fast", "slow"))]
    assert [f.size_met for f in found] == [True, False, None, True, False]
    assert [f.outcome for f in found] == ["holds", "holds", "contradicted", "holds", "holds"]
    assert found[0].evidence.endswith("The article’s +6.0\u00a0% lies inside that interval.")
    assert found[1].evidence.endswith("The article’s +25.0\u00a0% lies above that interval.")
    assert found[4].evidence.endswith("The article’s −6.0\u00a0% lies below that interval.")


def test_claim_smaller_than_the_margin_is_not_contradicted_by_equivalence():
    tiny = claim("better", "even", "base", value=1.005, against_value=1.0)
    (one,) = assessed(ARMS, tiny, only=("base", "even"))
    assert one.finding.outcome == "undecided"
    assert one.finding.evidence.endswith("The article’s +0.5\u00a0% is not larger.")


def test_claim_of_equivalence_is_undecided_if_the_interval_crosses_the_margin():
    arms = {"base": {}, "near": {"effect": 0.022, "sd": 0.012}}
    (one,) = assessed(arms, claim("equivalent", "near", "base"), seed=4)
    assert one.finding.verdict.kind == "better"
    assert one.finding.outcome == "undecided"
    assert one.finding.evidence.endswith(
        " It may be smaller than the 2\u00a0% that matters. About 23 more blocks would decide (up to 46)."
    )


def test_claim_margin_overrides_the_study_margin():
    wide = claim("equivalent", "slow", "base", margin=0.1)
    no_loss = claim("no-loss", "slow", "base", margin=0.1)
    both = assessed(ARMS, wide, no_loss, only=("base", "slow"))
    assert [one.finding.outcome for one in both] == ["holds", "holds"]
    assert "10\u00a0%" in both[0].finding.evidence
    assert "10\u00a0%" in both[0].check


def test_claim_to_be_best_holds_only_if_every_rival_is_beaten():
    claims = [
        claim("best", "fast", "base", among=["even", "slow"]),
        claim("best", "even", "base", among=["fast"]),
        claim("best", "even", "base", among=["slow"]),
        claim("best", "noisy", "slow", among=["base"]),
        claim("best", "base", "slow", among=["fast"]),
    ]
    found = assessed(ARMS, *claims)
    assert [one.finding.outcome for one in found] == [
        "holds",
        "contradicted",
        "contradicted",
        "undecided",
        "contradicted",
    ]
    assert "A rival is ahead of it: even is slower than fast by" in found[1].finding.evidence
    assert "no difference larger than" in found[2].finding.evidence
    assert found[3].finding.evidence.startswith("noisy is not shown to be ahead of ")


def test_claim_to_be_best_lists_its_rivals():
    claims = [
        claim("best", "fast", "base", among=["base"]),
        claim("best", "noisy", "base", among=["base"]),
        claim("best", "noisy", "slow", among=["even", "bit", "base"]),
    ]
    found = [one.finding.evidence.replace("\u00a0", " ") for one in assessed(ARMS, *claims)]
    never = "Not reachable at this noise (over 60 blocks): widen the margin or quieten the host."
    assert found == [
        "fast is ahead of the other one (largest p < 0.001); its lead is likely a little overstated.",
        f"noisy is not shown to be ahead of baseline. {never}",
        f"noisy is not shown to be ahead of even; bit; baseline, 3 of its 4 rivals. {never}",
    ]


def test_claim_to_be_best_is_undecided_if_rivals_were_not_run():
    best = claim("best", "fast", "base", among=["even", "slow"])
    (one,) = assessed(ARMS, best, only=("base", "fast", "even"))
    assert one.finding.outcome == "undecided"
    assert one.finding.evidence.startswith(
        "fast is ahead of each of the other 2 (largest p <\u00a00.001); its lead is likely a little overstated."
    )
    assert one.finding.evidence.endswith(" Not run: slow.")


def test_claim_to_be_best_rarely_holds_for_equal_treatments():
    """Of equal arms one is called best in 0.1 % of studies (docs/claims.md has the simulation)."""
    arms = {name: {"sd": 0.03} for name in ("base", "a", "b")}
    best = claim("best", "a", "base", among=["b"])
    found = [outcome for seed in range(5) for outcome in outcomes(arms, best, seed=seed, blocks=8)]
    assert "holds" not in found
    assert found.count("undecided") >= 4


def test_rival_is_ahead_only_if_its_p_value_times_the_number_of_rivals_is_significant():
    arms = {name: {"sd": 0.03} for name in ("base", "a", "b", "c", "d")}
    study = study_of(arms, claim("best", "a", "base", among=["b", "c", "d"]))
    (best,) = study.published.claims
    by_chance = []
    for seed in range(20):
        run = ClaimRun(run_of(study, arms, seed=seed, blocks=8))
        verdicts = [run.verdict(best, "a", rival) for rival in ("base", "b", "c", "d")]
        p = min([v.comparison.p for v in verdicts if v.comparison.effect < 0], default=1.0)
        if 0.05 / 4 < p < 0.05:
            by_chance.append(check_best(best, run).outcome)
    assert len(by_chance) >= 2 and set(by_chance) == {"undecided"}


def test_claim_about_several_pairs_of_treatments_uses_a_geometric_mean():
    arms = {"a1": {}, "a2": {"effect": 0.5}, "b1": {"effect": 0.04}, "b2": {"effect": 0.44}}
    joint = claim("equivalent", "b1", "a1", further=[["b2", "a2"]])
    single = claim("equivalent", "b1", "a1")
    found = assessed(arms, joint, single, seed=2)
    assert [one.finding.outcome for one in found] == ["holds", "contradicted"]
    assert found[0].finding.verdict.comparison.effect == pytest.approx(-0.01, abs=0.01)
    assert found[0].check.endswith("(geometric mean of 2 ratios)")


def test_claim_about_pairs_is_not_checked_if_a_pair_is_invalid():
    arms = {"a1": {}, "a2": {}, "b1": {}, "b2": {}}
    joint = claim("equivalent", "b1", "a1", further=[["b2", "a2"]])
    study = study_of(arms, joint)
    run = run_of(study, arms)
    run.trials.loc[run.trials["treatment"] == "b2", "response_bytes"] = 6
    (one,) = check_claims(study, run)
    assert one.finding.outcome == "unchecked"
    assert "it answers differently (6 bytes" in one.finding.evidence


def test_claim_about_latency_uses_its_metric_and_direction():
    arms = {"base": {}, "tuned": {"effect": 0.10, "tail": 0.7}}
    claims = [
        claim("better", "tuned", "base", metric="latency", statistic="p99", value=0.0157, against_value=0.0263),
        claim("worse", "tuned", "base", metric="latency", statistic="p99"),
        claim("better", "tuned", "base", metric="latency", statistic="p50"),
    ]
    found = assessed(arms, *claims)
    assert [one.finding.outcome for one in found] == ["holds", "contradicted", "unchecked"]
    assert found[0].finding.evidence.startswith("tuned has a shorter latency by ")
    assert found[2].finding.evidence == "No trial has a value of latency p50: wrk did not print it."
    assert found[0].article.could_show == "yes"


ERRORS = {"base": {}, "often": {"failing": 0.95}, "seldom": {"failing": 0.25}, "never": {}}


def test_claim_about_errors_compares_trials_with_errors():
    claims = [
        claim("more-errors", "often", "base"),
        claim("fewer-errors", "never", "often"),
        claim("fewer-errors", "often", "never"),
        claim("more-errors", "never", "often"),
        claim("more-errors", "never", "base"),
        claim("fewer-errors", "never", "base"),
        claim("more-errors", "seldom", "base"),
        claim("fewer-errors", "base", "seldom"),
    ]
    expected = ["holds", "holds", "contradicted", "contradicted", "contradicted", "unchecked", "undecided", "undecided"]
    found = assessed(ERRORS, *claims, seed=8)
    assert [one.finding.outcome for one in found] == expected, [one.finding.evidence for one in found]


def test_claim_of_no_errors_needs_enough_trials():
    """Nine clean trials still allow errors in 28 % of trials, four in 53 %: only the former is below the margin."""
    more = claim("more-errors", "never", "base")
    assert outcomes(ERRORS, more, only=("base", "never"), blocks=9) == ["contradicted"]
    assert outcomes(ERRORS, more, only=("base", "never"), blocks=4) == ["undecided"]
    strict = claim("more-errors", "never", "base", margin=0.1)
    (one,) = assessed(ERRORS, strict, only=("base", "never"))
    assert one.finding.outcome == "undecided"
    assert one.finding.evidence.endswith("At these shares about 17 more blocks would decide.")


@pytest.mark.parametrize("blocks", [6, 12])
def test_claim_that_errors_are_removed_cannot_be_checked_without_errors(blocks):
    """More blocks without errors would not make a removal visible, so none are forecast."""
    (one,) = assessed(ERRORS, claim("fewer-errors", "never", "base", margin=0.1), only=("base", "never"), blocks=blocks)
    assert one.finding.outcome == "unchecked"
    share = {6: 39, 12: 22}[blocks]
    nothing = f"There was nothing to remove: at most {share}\u00a0% of baseline’s trials have errors."
    assert one.finding.evidence.endswith(nothing.replace("baseline", "base"))
    assert "would decide" not in one.finding.evidence


def test_claim_about_errors_in_every_trial_compares_errors_per_request():
    arms = {"base": {"failing": 1.0}, "tuned": {"failing": 1.0}}
    study = study_of(arms, claim("fewer-errors", "tuned", "base"))
    run = run_of(study, arms)
    tuned = run.trials.loc[run.trials["treatment"] == "tuned", "trial"]
    errors = run.measurements["trial"].isin(tuned) & (run.measurements["metric"] == "errors")
    run.measurements.loc[errors, "value"] *= 0.75
    (one,) = check_claims(study, run)
    assert one.finding.short_evidence == "0.77 times as many errors per request"


def test_claim_about_error_interaction_forecasts_the_blocks_that_decide_it():
    arms = {name: arm | {"failing": 0.0} for name, arm in TWO_BY_TWO.items()}
    few, many = (
        assessed(arms, claim("interaction", "both", "accept", **PAIR), blocks=blocks)[0].finding for blocks in (6, 9)
    )
    assert (few.outcome, many.outcome) == ("undecided", "contradicted")
    assert few.evidence.endswith("At these shares about 3 more blocks would decide.")


PAIR = {"factors": ["accept", "epoll"]}


@pytest.mark.parametrize(
    ("failing", "outcome"),
    [
        ({"accept": 1.0}, "holds"),
        ({"accept": 0.9, "epoll": 0.1}, "holds"),
        ({"accept": 1.0, "both": 1.0}, "undecided"),
        ({"epoll": 1.0}, "contradicted"),
        ({"both": 1.0}, "contradicted"),
        ({}, "contradicted"),
        ({"accept": 0.5, "both": 0.3, "neither": 0.1}, "undecided"),
    ],
)
def test_claim_that_a_remedy_removes_errors_needs_errors_with_the_cause_alone(failing, outcome):
    arms = {name: arm | {"failing": failing.get(name, 0.0)} for name, arm in TWO_BY_TWO.items()}
    (one,) = assessed(arms, claim("interaction", "both", "accept", **PAIR), seed=2)
    assert one.finding.outcome == outcome, one.finding.evidence


def test_claim_about_interaction_averages_other_factors():
    more = {f"{n}-c": a | {"set": a.get("set", {}) | {"c": "on"}} for n, a in TWO_BY_TWO.items()}
    arms = {n: a | {"failing": float("accept" in n)} for n, a in (TWO_BY_TWO | more).items()}
    (one,) = assessed(arms, claim("interaction", "both", "accept", **PAIR))
    assert one.finding.outcome == "holds"
    assert one.finding.evidence == (
        "Trials with errors: accept with epoll: 0 of 24; accept alone: 24 of 24; epoll alone: 0 of 24; "
        "neither accept nor epoll: 0 of 24 (interaction by block, p <\u00a00.001)."
    )
    (part,) = assessed(arms, claim("interaction", "both", "accept", **PAIR), only=("both", "accept"))
    assert part.finding.outcome == "not-run"
    assert part.finding.evidence == "Not run: epoll alone; neither accept nor epoll."


def test_claim_about_interaction_rarely_holds_for_equal_error_rates():
    arms = {name: arm | {"failing": 0.5} for name, arm in TWO_BY_TWO.items()}
    study = study_of(arms, claim("interaction", "both", "accept", **PAIR))
    (one,) = study.published.claims
    runs = (ClaimRun(run_of(study, arms, seed=seed, blocks=8)) for seed in range(20))
    found = [check_interaction(one, run).outcome for run in runs]
    assert found.count("holds") <= 2  # 2 % are expected


SIZES = [128, 2048, 8192, 32_768, 65_536, 131_072, 262_144, 524_288]


def sized(knee: float = 65_536.0, sd: float = 0.01):
    """Pages whose rate follows two regimes: a cost per request, and one per byte that equals it at the knee."""
    import math

    return {f"s{x}": {"set": {"page_bytes": x}, "effect": -math.log1p(x / knee), "sd": sd} for x in SIZES}


def slope(low: float, high: float, first: int, last: int):
    between = [f"s{x}" for x in SIZES if first < x < last]
    return claim("slope", f"s{last}", f"s{first}", among=between, factors=["page_bytes"], slope=[low, high])


def test_claim_about_slope_names_the_dominant_cost():
    claims = [
        slope(-0.1, 0.1, 128, 8192),
        slope(-1.1, -0.9, 128, 8192),
        slope(-0.3, 0.3, 65_536, 524_288),
        slope(-0.9, -0.7, 65_536, 524_288),
    ]
    found = assessed(sized(), *claims, seed=5)
    assert [one.finding.outcome for one in found] == ["holds", "contradicted", "contradicted", "holds"]
    assert "the cost per request rules" in found[0].finding.evidence
    assert found[0].finding.short_evidence.startswith("slope −0.0")
    assert outcomes(sized(sd=1.0), slope(-0.9, -0.7, 65_536, 524_288)) == ["undecided"]


def test_claim_about_slope_needs_numeric_levels_and_enough_blocks():
    flat = slope(-0.1, 0.1, 128, 8192)
    assert assessed(sized(), flat, blocks=4)[0].finding.evidence == "Only 4 complete blocks, 5 are needed."
    arms = {"a": {"set": {"page_bytes": "small"}}, "b": {"set": {"page_bytes": 2048}}}
    words = claim("slope", "b", "a", factors=["page_bytes"], slope=[-1, 0])
    (one,) = assessed(arms, words)
    assert one.finding.outcome == "unchecked"
    assert one.finding.evidence == "page_bytes is not a positive number for a (small)."
    arms = {"a": {"set": {"page_bytes": 2048}}, "b": {"set": {"page_bytes": 2048, "x": 1}}, "c": {"set": {"x": 0}}}
    (equal,) = assessed(arms, words)
    assert equal.finding.evidence == "A slope needs at least two values of page_bytes."


def test_claim_about_slope_is_not_checked_if_offered_rates_were_fully_served() -> None:
    (one,) = assessed(sized(), slope(-0.1, 0.1, 128, 8192), offered=20_000.0)
    assert one.finding.outcome == "unchecked"
    assert one.finding.evidence.startswith("All of the offered load was served by s8192; s128; s2048: ")


def test_claim_to_be_best_is_undecided_if_a_rival_is_invalid() -> None:
    best = claim("best", "fast", "base", among=["even", "slow"])
    study = study_of(ARMS, best)  # type: ignore[arg-type]
    run = run_of(study, ARMS, only=("base", "fast", "even", "slow"))  # type: ignore[arg-type]
    run.trials.loc[run.trials["treatment"] == "even", "response_bytes"] = 6
    (one,) = check_claims(study, run)
    assert one.finding.outcome == "undecided"
    assert one.finding.evidence.endswith(" Not compared: even.")


def test_claim_about_treatments_not_run_names_the_command_that_runs_them():
    better = claim("better", "fast", "base")
    study = study_of(
        ARMS,  # type: ignore[arg-type]
        better,
        subsets={"default": ["base", "even"], "all-of-it": list(ARMS), "two": ["base", "fast"]},
    )
    (one,) = check_claims(study, run_of(study, ARMS, only=("base", "even")))  # type: ignore[arg-type]
    assert one.finding.outcome == "not-run"
    assert one.finding.evidence == "Not run: fast. To run: loadbook run s --subset two."
    (nothing,) = check_claims(study)
    assert nothing.finding.evidence == "The study has no run. To run: loadbook run s --subset two."
    assert nothing.article.could_show == "not known"
    (bare,) = assessed(ARMS, better, only=("base", "even"))
    assert bare.finding.evidence == "Not run: fast. To run: loadbook run s."
    (few,) = check_claims(study_of(ARMS, better, subsets={"default": ["base", "even"]}))  # type: ignore[arg-type]
    assert few.finding.evidence == "The study has no run. To run: loadbook run s --subset all."


def test_claim_is_not_checked_if_the_offered_rates_were_fully_served():
    (one,) = assessed(ARMS, claim("no-loss", "fast", "base"), only=("base", "fast"), offered=20_000.0)
    assert one.finding.outcome == "unchecked"
    assert "offered load" in one.finding.evidence


def test_claims_are_not_checked_with_few_blocks_or_failed_aa_arm():
    better = claim("better", "fast", "base")
    assert outcomes(ARMS, better, only=("base", "fast"), blocks=4) == ["unchecked"]
    arms = ARMS | {"again": {"check": "aa", "same_as": "base", "effect": 0.05}}
    claims = [better, claim("worse", "slow", "fast"), claim("best", "fast", "base", among=["slow"])]
    for one in assessed(arms, *claims, only=("base", "fast", "slow", "again")):
        assert one.finding.outcome == "unchecked"
        assert one.finding.evidence.startswith("No verdict: the A/A arm differs from the baseline.")


def test_claim_outcome_agrees_with_the_verdict_on_the_page():
    """Against the baseline the whole family counts; what is undecided there cannot be shown here."""
    arms = {"base": {}} | {f"t{k}": {"effect": 0.012, "sd": 0.012} for k in range(6)}
    claims = [claim("better", name, "base") for name in arms if name != "base"]
    study = study_of(arms, *claims)
    run = run_of(study, arms, seed=6)
    whole = analyse(run)
    for one in check_claims(study, run, whole):
        assert one.finding.verdict == whole.row(one.claim.treatment).verdict


def test_claims_are_checked_against_the_baseline_in_one_sided_and_stepwise_studies():
    better = claim("better", "fast", "base")
    for declared in ({"hypothesis": "non-inferiority"}, {"contrasts": "best"}, {"contrasts": "adjacent"}):
        study = study_of(ARMS, better, **declared)  # type: ignore[arg-type]
        run = run_of(study, ARMS, only=("base", "even", "fast"))  # type: ignore[arg-type]
        for known in (None, analyse(run)):
            (one,) = check_claims(study, run, known)
            assert one.finding.outcome == "holds", declared
            assert one.finding.verdict.comparison.baseline == "base"


def test_claims_are_not_checked_between_planned_looks():
    more = claim("more-errors", "often", "base")
    study = study_of(ERRORS, more, stopping={"rule": "looks", "looks": [10, 20]}, blocks=20)
    run = run_of(study, ERRORS, only=("base", "often"), blocks=12)
    run = Run(study, run.trials, run.measurements, replace(run.plan, blocks=20))
    (one,) = check_claims(study, run)
    assert one.finding.outcome == "unchecked"
    assert one.finding.evidence.startswith("Not yet a planned look")


def test_claim_about_errors_is_not_checked_if_errors_were_not_counted():
    more = claim("more-errors", "often", "base")
    study = study_of(ERRORS, more)
    run = run_of(study, ERRORS, only=("base", "often"))
    silent = replace(run, measurements=run.measurements[run.measurements["metric"] != "errors"])
    (one,) = check_claims(study, silent)
    assert one.finding.outcome == "unchecked"
    assert one.finding.evidence == "Errors were not counted in any trial of these treatments."
