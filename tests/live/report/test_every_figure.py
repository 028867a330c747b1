"""Every figure in every case that strains it; tests/unit draws one case of each."""

from __future__ import annotations

import pytest

from figure_cases import PAIRS, STRAINS_MOST, must_be_complete


@pytest.mark.parametrize(("figure", "case"), [pair for pair in PAIRS if pair[1] != STRAINS_MOST])
def test_figure_is_legible_and_its_captions_match_the_data(figure: str, case: str) -> None:
    must_be_complete(figure, case)
