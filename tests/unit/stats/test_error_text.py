"""Sentences on treatments whose requests are answered with errors."""

import pytest

from loadbook.stats.error_text import refusal_text
from loadbook.stats.results import AnalysisRow, ErrorSummary, Refusal

LIMIT = 'limiting connections by zone "addr"'


def row(refusal: Refusal | None) -> AnalysisRow:
    errors = ErrorSummary("tuned", 6, 6, 712, 868, {"errors_status": 712}, refusal=refusal)
    return AnalysisRow("tuned", "tuned", "treatment", None, None, 6, 0, None, errors)


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (Refusal(0.82, ("503",), LIMIT), f"tuned refuses 82 % of its requests with status 503 (its log: {LIMIT})"),
        (Refusal(0.82, (), LIMIT), f"tuned refuses 82 % of its requests (its log: {LIMIT})"),
        (Refusal(0.5, ("503", "429")), "tuned refuses 50 % of its requests with statuses 503 and 429"),
        (Refusal(1.0, ("404",)), "tuned answers 100 % of its requests with status 404"),
        (Refusal(None, ("503",)), "tuned refuses its requests with status 503"),
        (None, ""),
    ],
)
def test_error_responses_are_told_with_their_share_status_and_reason_as_far_as_known(refusal, sentence):
    assert refusal_text(row(refusal)).replace("\u00a0", " ") == sentence
