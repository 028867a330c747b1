"""The exact words of claim replay."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from claim_runs import claim
from loadbook.analyses.claims import checks as words
from loadbook.analyses.claims.compute import (
    OUTCOMES,
    ClaimFinding,
    article_numbers_text,
    assess_article,
    claim_title,
    claims_summary,
    criterion_text,
)
from loadbook.core.units import NBSP
from loadbook.stats.phrases import verdict_parts
from loadbook.stats.results import ErrorSummary, Forecast
from loadbook.study.model import Claim
from trial_frames import verdict


def of(kind: str, **more) -> Claim:
    return Claim.model_validate(claim(kind, "x", "y", **more))


def printed(text: str) -> str:
    return text.replace(NBSP, " ")


def test_claim_outcomes_have_fixed_wording() -> None:
    assert [f"{glyph} {word}" for glyph, word in OUTCOMES.values()] == [
        "✓ holds here", "✗ does not hold here", "? undecided here", "– cannot be checked here", "· not yet run here",
    ]  # fmt: skip


CHECKS = {
    "better": "holds if it is shown to be better",
    "worse": "holds if it is shown to be worse",
    "best": "holds if it is shown to be ahead of every rival",
    "no-loss": "holds if a loss beyond 2 % is excluded",
    "equivalent": "holds if a difference larger than 2 % is excluded",
    "fewer-errors": "holds if it has errors in fewer trials",
    "more-errors": "holds if it has errors in more trials",
    "interaction": "holds if the one removes errors that the other brings",
    "slope": "holds if the log-log slope lies in −1.10 to −0.90",
}
NEEDS = {
    "best": {"among": ["z"]},
    "interaction": {"factors": ["f", "g"]},
    "slope": {"factors": ["f"], "slope": [-1.1, -0.9]},
}


@pytest.mark.parametrize("kind", CHECKS)
def test_claim_criteria_have_fixed_wording(kind: str) -> None:
    assert printed(criterion_text(of(kind, **NEEDS.get(kind, {})), 0.02)) == CHECKS[kind]  # type: ignore[arg-type]


SENTENCES = [
    (
        "X" + verdict_parts(verdict("better")).after_name,
        ("X is faster by 6.0 % (95 % interval 5.1 to 6.8 %), 12 blocks."),
    ),
    (
        "X" + verdict_parts(verdict("better"), against="Y").after_name,
        "X is faster than Y by 6.0 % (95 % interval 5.1 to 6.8 %), 12 blocks.",
    ),
    (words.joint_forecast_sentence([Forecast(3, 1, 5), Forecast(9, 3, 21)]), "About 9 more blocks would decide."),
    (
        words.joint_forecast_sentence([Forecast(None, None, None)]),
        "Not reachable at this noise (over 60 blocks): widen the margin or quieten the host.",
    ),
    (words.not_run_sentence(["A", "B", "C", "D", "E"]), "Not run: A; B; C; 2 more."),
    (
        words.not_measured_sentence("latency", "p99", ["ab", "wrk"]),
        "No trial has a value of latency p99: ab and wrk did not print it.",
    ),
    (
        words.few_errors_sentence("X", 0.221, 0.3),
        ("At most 22 % of X’s trials have errors, less than the 30 % that matters."),
    ),
    (words.error_forecast_sentence(12, lambda blocks: blocks > 12), "At these shares about 1 more block would decide."),
    (
        words.error_forecast_sentence(12, lambda blocks: blocks > 60),
        "At these shares more blocks would not decide (over 60).",
    ),
    (words.two_arms_text((11, 12), (0, 12)), "errors in 11 of 12 against 0 of 12 trials"),
    (
        words.slope_sentence(-0.98, (-1.01, -0.94), 12, 4),
        "log-log slope −0.98 (90 % interval −1.01 to −0.94), 4 sizes, 12 blocks: "
        "the cost per byte rules, bytes per second hardly change.",
    ),
    (
        words.slope_sentence(-0.5, (-0.6, -0.4), 12, 2),
        "log-log slope −0.50 (90 % interval −0.60 to −0.40), 2 sizes, 12 blocks: both costs count.",
    ),
    (
        words.slope_sentence(-0.01, (-0.02, 0.0), 12, 2),
        "log-log slope −0.01 (90 % interval −0.02 to 0.00), 2 sizes, 12 blocks: "
        "the cost per request rules, the size hardly matters.",
    ),
    (words.too_few_blocks_sentence(1), "Only 1 complete block, 5 are needed."),
]


@pytest.mark.parametrize(("text", "wanted"), SENTENCES, ids=[w[:40] for _, w in SENTENCES])
def test_sentences_have_fixed_wording(text: str, wanted: str) -> None:
    assert printed(text) == wanted
    assert not re.search(r"significant|prove|no effect|\bsame\b", text)


def test_claim_sentence_states_errors_of_two_treatments() -> None:
    ours = ErrorSummary("x", 12, 11, 990, 5, {}, p=0.0001)
    assert printed(words.error_trials_sentence(ours, ErrorSummary("y", 12, 0, 0, 5, {}), "X", "Y")) == (
        "X: errors in 11 of 12 trials; Y: in 0 of 12 trials (p < 0.001)."
    )
    rated = replace(ours, trials_with_errors=12, p=1.0, rate_ratio=0.741, rate_ci95=(0.701, 0.789))
    assert printed(words.error_trials_sentence(rated, ErrorSummary("y", 12, 12, 9, 5, {}), "X", "Y")) == (
        "X: errors in 12 of 12 trials; Y: in 12 of 12 trials (p 1.00), "
        "0.74 times as many per request (95 % interval 0.7 to 0.79)."
    )


FINDINGS = {
    "one": (
        [ClaimFinding("holds", "", size_met=False)],
        ["in part"],
        "The article’s claim: holds here, in direction, not in size. Could its own numbers have shown it? In part.",
    ),
    "one that does not": (
        [ClaimFinding("contradicted", "")],
        ["no"],
        "The article’s claim: does not hold here. Could its own numbers have shown it? No.",
    ),
    "several": (
        [
            ClaimFinding("not-run", ""),
            ClaimFinding("holds", "", size_met=True),
            ClaimFinding("holds", ""),
            ClaimFinding("contradicted", ""),
            ClaimFinding("undecided", ""),
        ],
        ["not known", "yes", "in part", "no", "no"],
        "Of 5 claims: 2 hold here (1 of them in size, too); 1 does not hold here; 1 undecided here; "
        "1 not yet run here. "
        "The article’s own numbers, one run each, could have shown 1 of them (1 more in part).",
    ),
    "none": (
        [ClaimFinding("unchecked", ""), ClaimFinding("unchecked", "")],
        ["no", "no"],
        "Of 2 claims: 2 cannot be checked here. "
        "The article’s own numbers, one run each, could have shown none of them.",
    ),
    "two in part": (
        [ClaimFinding("holds", "", size_met=False), ClaimFinding("undecided", "")],
        ["in part", "in part"],
        "Of 2 claims: 1 holds here (in direction, not in size); 1 undecided here. "
        "The article’s own numbers, one run each, could have shown none of them (2 in part).",
    ),
}


@pytest.mark.parametrize("case", FINDINGS)
def test_claims_summary_counts_outcomes(case: str) -> None:
    findings, could, wanted = FINDINGS[case]
    assert claims_summary(findings, could) == wanted  # type: ignore[arg-type]


def test_claim_is_described_by_its_title_and_the_numbers_of_the_article() -> None:
    """Quotation marks stand only around the article's own words."""
    assert claim_title(of("better")) == "x: better"
    assert claim_title(of("better", quote="誤差の範囲")) == "“誤差の範囲”"
    rates = of("better", value=23_871.8, against_value=17_687.9, errors=7754)
    assert article_numbers_text(rates) == "17,688 → 23,872 req/s; errors – → 7,754"
    tail = of("better", metric="latency", statistic="p99", value=0.01569, against_value=0.0263)
    assert printed(article_numbers_text(tail)) == "latency p99 26.3 ms → 15.7 ms"
    assert article_numbers_text(of("better")) == "no numbers"


NUMBERS = {"value": 23_871.8, "against_value": 17_687.9}
OFFERED = {"value": 24_980.6, "against_value": 17_687.9, "offered_per_s": 25_000}
CHANCE = "One run each: with the scatter seen here, equal treatments differ by as much in {} of pairs."
WORTH = [
    (of("better", **NUMBERS), 0.03, "yes", CHANCE.format("less than 1 %")),
    (of("better", value=1592, against_value=1550), 0.028, "no", CHANCE.format("34 %")),
    (of("better", value=1592, against_value=1550), 0.0424, "no", CHANCE.format("53 %")),
    (
        of("better", **OFFERED), 0.03, "in part",
        f"{CHANCE.format('less than 1 %')} Its value lies at the offered rate, so that the size is a lower bound.",
    ),
    (
        of("best", among=["z"], **NUMBERS), 0.03, "in part",
        f"{CHANCE.format('less than 1 %')} That it leads is the largest of several single runs, and in part luck.",
    ),
    (of("better", **NUMBERS), None, "not known", "One run each; how much runs scatter is not known."),
    (of("worse", **NUMBERS), 0.03, "no", "Its own two numbers point the other way."),
    (of("better", metric="latency", statistic="p50", value=0.00654, against_value=0.00633), 0.03, "no",
     "Its own two numbers point the other way."),
    (of("worse", metric="latency", statistic="p50", value=0.00654, against_value=0.00633), 0.005, "yes",
     CHANCE.format("less than 1 %")),
    (of("equivalent", value=24_980.6, against_value=24_538.7, offered_per_s=25_000), 0.03, "no",
     "Both values lie at the offered rate, which is the tool’s setting: no evidence either way."),
    (of("no-loss", value=24_000, against_value=23_000, offered_per_s=25_000), 0.03, "no",
     "One run each: without an interval no difference is excluded."),
    (of("fewer-errors", errors=0, against_errors=900, **NUMBERS), 0.03, "no",
     "One run each, and errors come in bursts: two equal treatments can differ like that."),
    (of("fewer-errors", **NUMBERS), 0.03, "not known", "The article gives no counts of errors for both."),
    (of("slope", factors=["f"], slope=[-1, 0], **NUMBERS), 0.03, "no",
     "One run for each size: a slope without an interval."),
    (of("better"), 0.03, "not known", "The article gives no two numbers for it."),
]  # fmt: skip


@pytest.mark.parametrize(("given", "scatter", "could", "sentence"), WORTH)
def test_claim_states_whether_the_numbers_of_the_article_could_show_it(given, scatter, could, sentence) -> None:
    """34 % at a CV of 2 % (a paired scatter of 2.8 %) and 53 % at 3 % are the figures of the method's simulation."""
    found = assess_article(given, 0.98, scatter)
    assert (found.could_show, printed(found.sentence)) == (could, sentence)


def test_claimed_value_at_the_offered_rate_is_a_lower_bound() -> None:
    found = assess_article(of("better", **OFFERED), 0.98, 0.03)
    assert (found.at_ceiling, found.both_at_ceiling) == (True, False)
    assert not assess_article(of("better", **(OFFERED | {"value": 23_871.8})), 0.98, 0.03).at_ceiling
    assert assess_article(of("better", **(OFFERED | {"against_value": 24_920.8})), 0.98, 0.03).both_at_ceiling
