"""Golden texts of verdicts, compared letter by letter."""

import pytest

from loadbook.stats.error_text import errors_sentence
from loadbook.stats.phrases import terminal_verdict, verdict_parts
from loadbook.stats.results import ErrorSummary, Forecast
from loadbook.stats.text import (
    best_sentence,
    comparison_texts,
    margin_text,
)
from trial_frames import verdict

UNDECIDED = {"effect": 0.010, "low": -0.005, "high": 0.026, "p": 0.2}
MORE = Forecast(9, 1, 21)

REPORT = {
    "better": (verdict("better"), "tcp_nopush on is faster by 6.0 % (95 % interval 5.1 to 6.8 %), 12 blocks."),
    "worse": (
        verdict("worse", effect=-0.047, low=-0.056, high=-0.038),
        "tcp_nopush on is slower by 4.7 % (95 % interval 3.8 to 5.6 %), 12 blocks.",
    ),
    "small": (
        verdict("small", effect=0.010, low=0.004, high=0.017),
        "tcp_nopush on is faster by 1.0 % (95 % interval 0.4 to 1.7 %): "
        "real, but smaller than the 2 % that matters, 12 blocks.",
    ),
    "equivalent": (
        verdict("equivalent", effect=0.005, low=-0.006, high=0.017, ci90=(-0.004, 0.015), blocks=11),
        "tcp_nopush on: no difference larger than 2 % (90 % interval −0.4 to +1.5 %), 11 blocks.",
    ),
    "undecided": (
        verdict("undecided", **UNDECIDED, forecast=MORE, decimals=1),
        "tcp_nopush on: undecided: −0.5 to +2.6 %, 12 blocks. About 9 more blocks would decide (up to 21); "
        "9 blocks take 1 h 5 min.",
    ),
    "not reachable": (
        verdict("undecided", **UNDECIDED, forecast=Forecast(None, None, None), decimals=1),
        "tcp_nopush on: undecided: −0.5 to +2.6 %, 12 blocks. Not reachable at this noise (over 60 blocks): "
        "widen the margin or quieten the host.",
    ),
    "no margin": (
        verdict("undecided", 0.0, **UNDECIDED, forecast=Forecast(None, None, None), decimals=1),
        "tcp_nopush on: undecided: −0.5 to +2.6 %, 12 blocks. Not reachable at this noise (over 60 blocks): "
        "quieten the host.",
    ),
    "only alone": (
        verdict("undecided", effect=0.03, low=0.004, high=0.055, family_size=7, forecast=Forecast(1, 1, 1), decimals=1),
        "tcp_nopush on: undecided: +0.4 to +5.5 %, 12 blocks. That differs if looked at alone, but not among "
        "7 comparisons. About 1 more block would decide (up to 1); 1 block takes 7 min.",
    ),
    "invalid": (
        verdict("invalid", reason="it answers differently (24 bytes where the baseline sends 4)"),
        "tcp_nopush on: not compared: it answers differently (24 bytes where the baseline sends 4).",
    ),
    "capacity": (
        verdict("better", metric="capacity_per_s"),
        "tcp_nopush on sustains 6.0 % more load (95 % interval 5.1 to 6.8 %), 12 blocks.",
    ),
    "less capacity": (
        verdict("small", metric="capacity_per_s", effect=-0.010, low=-0.017, high=-0.004),
        "tcp_nopush on sustains 1.0 % less load (95 % interval 0.4 to 1.7 %): "
        "real, but smaller than the 2 % that matters, 12 blocks.",
    ),
    "latency": (
        verdict("better", 0.05, metric="latency", effect=-0.08, low=-0.1, high=-0.06),
        "tcp_nopush on has a shorter latency by 8.0 % (95 % interval 6.0 to 10.0 %), 12 blocks.",
    ),
    "errors": (
        verdict("worse", metric="errors", effect=0.6, low=0.3, high=1.1),
        "tcp_nopush on has more errors by 60 % (95 % interval 30 to 110 %), 12 blocks.",
    ),
    "other level": (
        verdict("better", level=0.99),
        "tcp_nopush on is faster by 6.0 % (99 % interval 5.1 to 6.8 %), 12 blocks.",
    ),
    "huge": (
        verdict("better", effect=4.02, low=3.8, high=4.3),
        "tcp_nopush on is faster by 402 % (95 % interval 380 to 430 %), 12 blocks.",
    ),
    "tiny": (
        verdict("small", effect=0.001, low=0.0001, high=0.0019),
        "tcp_nopush on is faster by 0.10 % (95 % interval 0.01 to 0.19 %): "
        "real, but smaller than the 2 % that matters, 12 blocks.",
    ),
}
SHORT = {
    "better": "faster by 6.0% (95% CI 5.1..6.8), 12 blocks",
    "worse": "slower by 4.7% (95% CI 3.8..5.6), 12 blocks",
    "small": "faster by 1.0% (0.4..1.7): real, but smaller than the 2% that matters",
    "equivalent": "no difference larger than 2% (equivalent; 90% CI -0.4..1.5), 11 blocks",
    "undecided": "undecided: -0.5..2.6%; needs about 9 more blocks (1..21)",
    "not reachable": "undecided: -0.5..2.6%; not reachable at this noise; reduce noise or widen the margin",
    "no margin": "undecided: -0.5..2.6%; not reachable at this noise; reduce noise",
    "invalid": "invalid: it answers differently (24 bytes where the baseline sends 4)",
    "capacity": "sustains 6.0% more load (95% CI 5.1..6.8), 12 blocks",
    "latency": "shorter by 8.0% (95% CI 6.0..10.0), 12 blocks",
}


@pytest.mark.parametrize("case", REPORT)
def test_verdict_sentences_of_reports_are_as_expected(case: str) -> None:
    found, expected = REPORT[case]
    block_s = 433.3 if case in ("undecided", "only alone") else None
    text = "tcp_nopush on" + verdict_parts(found, block_s=block_s).after_name
    assert text.replace("\u00a0", " ") == expected
    assert " %" not in text
    assert "-" not in text


@pytest.mark.parametrize("case", SHORT)
def test_verdict_sentences_of_the_command_line_are_as_expected(case: str) -> None:
    assert terminal_verdict(REPORT[case][0]) == SHORT[case]


def test_sentence_and_table_print_the_same_numbers() -> None:
    found = verdict("better")
    texts = comparison_texts(found)
    assert texts.size in verdict_parts(found).after_name
    assert texts.bounds in verdict_parts(found).after_name
    assert (texts.change_number, texts.interval_number) == ("+6.0", "+5.1 to +6.8")
    assert (texts.p, texts.direction_word) == ("<\u00a00.001", "faster")


def test_invalid_verdict_prints_no_numbers() -> None:
    texts = comparison_texts(verdict("invalid", reason="x"))
    assert (texts.change, texts.interval, texts.p, texts.blocks) == ("–", "–", "–", "12")


def errors(trials: int, failing: int, kind: str, **more) -> ErrorSummary:
    return ErrorSummary(
        "t",
        trials,
        failing,
        more.pop("errors", 0),
        100_000,
        more.pop("by_class", {}),
        kind=kind,  # type: ignore[arg-type]
        **more,
    )


BASE = errors(12, 0, "baseline", upper_share=0.22)


@pytest.mark.parametrize(
    ("summary", "baseline", "expected"),
    [
        (
            errors(12, 0, "none", upper_share=0.2209),
            BASE,
            "no errors in 12 of 12 trials (up to 22 % of trials could still have some).",
        ),
        (
            errors(12, 1, "undecided", errors=15, by_class={"errors_timeout": 14, "errors_status": 1}),
            BASE,
            "1 of 12 trials had errors (14 time-outs, 1 error response) against 0 of 12 of the baseline: undecided.",
        ),
        (
            errors(12, 10, "more", errors=1200, by_class={"errors_connect": 1200}),
            BASE,
            "more errors: 10 of 12 trials had errors (1,200 failed connections) against 0 of 12 of the baseline.",
        ),
        (
            errors(12, 0, "fewer", upper_share=0.2209),
            errors(12, 9, "baseline", errors=900),
            "no errors in 12 of 12 trials, fewer than the baseline: 0 against 9 of 12 "
            "(up to 22 % of trials could still have some).",
        ),
        (
            errors(12, 12, "more", errors=40, by_class={"errors_read": 40}, rate_ratio=4.2, rate_ci95=(2.0, 8.8)),
            errors(12, 12, "baseline", errors=10),
            "more errors: 12 of 12 trials had errors (40 resets or failed receives) against 12 of 12 of the baseline, "
            "4.2 times as many per request (95 % interval 2 to 8.8).",
        ),
        (errors(12, 2, "baseline", errors=5), None, "2 of 12 trials had errors (5 in all)."),
        (errors(0, 0, "none"), BASE, "errors: not measured."),
    ],
)
def test_sentence_on_errors_states_the_comparison_with_the_baseline(summary, baseline, expected: str) -> None:
    assert errors_sentence(summary, baseline).replace("\u00a0", " ") == expected


def test_best_sentence_names_the_best_treatment() -> None:
    assert best_sentence([], "x") == "x is ahead of every other treatment; its own gain is likely a little overstated."
    assert best_sentence(["a", "b", "c"], None, True) == "Any of a, b and c may be best; all are ahead of the rest."
    assert best_sentence(["a", "b"], None) == "Either a or b may be best."
    assert best_sentence([], None) is None
    assert best_sentence(list("abcdef"), None) == "Any of a, b, c and 3 others may be best."


def test_margins_are_printed_with_as_many_decimals_as_they_have() -> None:
    assert [margin_text(m).replace("\u00a0", " ") for m in (0.02, 0.005, 0.0125, 0.1)] == [
        "2 %",
        "0.5 %",
        "1.25 %",
        "10 %",
    ]
