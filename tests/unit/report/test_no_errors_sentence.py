"""What the sentence about a run without failed requests promises."""

from __future__ import annotations

from dataclasses import replace

from loadbook.report.verdicts import no_errors_sentence
from loadbook.stats.errors import zero_error_upper_bound
from mock_analysis import mock


def test_bound_on_the_share_of_trials_with_errors_is_that_of_the_treatment_with_the_fewest_trials() -> None:
    analysis = mock("plain").analysis
    rows = [
        replace(
            r, errors=replace(r.errors, trials=trials, trials_with_errors=0, upper_share=zero_error_upper_bound(trials))
        )
        for r, trials in zip(analysis.rows, (12, 3, *[12] * len(analysis.rows)), strict=False)
    ]
    total = 12 * (len(rows) - 1) + 3
    sentence = no_errors_sentence(replace(analysis, rows=tuple(rows)))
    assert sentence.startswith(f"No errors in {total} of {total} trials (up to 63\u00a0% of a treatment")


def test_trials_without_a_count_of_errors_do_not_count_as_trials_without_errors() -> None:
    analysis = mock("plain").analysis
    rows = tuple(replace(r, errors=replace(r.errors, trials=0, upper_share=None)) for r in analysis.rows)
    assert no_errors_sentence(replace(analysis, rows=rows)) == (
        "Errors were not measured: no trial has a count of them."
    )
