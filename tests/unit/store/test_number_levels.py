"""Levels of a factor are numbers in a loaded run where all of them are numbers, as plots and sorting need them."""

from __future__ import annotations

import pandas as pd
import pytest

from loadbook.notebook.run import Run
from loadbook.store.tables import load_run, with_number_levels
from recorded_run import STUDY, ingested_run


@pytest.mark.parametrize(
    ("levels", "numbers"),
    [
        (["16384", "1024", "1048576"], [16384, 1024, 1048576]),
        (["0.5", "2", None], [0.5, 2.0, float("nan")]),
        (["1e-05", "-3"], [1e-05, -3.0]),
    ],
)
def test_levels_that_are_all_numbers_become_numbers(levels: list[str | None], numbers: list[float]) -> None:
    got = with_number_levels(pd.DataFrame({"trial": ["t"] * len(levels), "factor_page_bytes": levels}))
    assert pd.api.types.is_numeric_dtype(got["factor_page_bytes"])
    pd.testing.assert_series_equal(got["factor_page_bytes"], pd.Series(numbers, name="factor_page_bytes"))


@pytest.mark.parametrize(
    "levels", [["off", "1"], ["64k", "128k"], ["0644", "0600"], ["nan", "1"], [None, None], ["1_0"]]
)
def test_other_levels_stay_text(levels: list[str | None]) -> None:
    before = pd.DataFrame({"trial": ["t"] * len(levels), "factor_mode": pd.Series(levels, dtype="str")})
    pd.testing.assert_frame_equal(with_number_levels(before), before)


def test_a_run_is_grouped_by_numbers_as_by_their_names(tmp_path) -> None:
    run = Run(load_run(ingested_run(tmp_path), STUDY))
    assert run.trials["factor_access_log"].dtype == "str"
    run.trials["half"] = (run.trials["block"] % 2).astype(float)
    assert set(run.compare(by="half").groups) == {"0", "1"}
