"""A run with some of its trials only: which ones are asked for, and every table cut to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import UsageError
from loadbook.core.names import nearest_names, unknown_name_error
from loadbook.explore.verdicts import whole_blocks
from loadbook.records.rundata import RunData

if TYPE_CHECKING:
    import pandas as pd

CUT = ("measurements", "samples", "traces", "problems")


def asked(trials: pd.DataFrame, query: Any) -> pd.DataFrame:
    """Return the trials of a pandas query or a mask; UsageError says what is wrong with it."""
    if not isinstance(query, str):
        return trials[_mask(trials, list(query))]
    try:
        return trials.query(query)
    except Exception as error:  # pandas has many: an undefined name, a syntax error, a type that does not fit
        columns = nearest_names(getattr(error, "name", "") or query, map(str, trials.columns))
        said = f"{query!r} is no query of the trials: {error}"
        raise UsageError(said[:300], f"columns: {', '.join(columns)}") from None


def _mask(trials: pd.DataFrame, values: list[Any]) -> list[bool]:
    if len(values) != len(trials) or not all(value in (True, False) for value in values):
        raise UsageError(
            f"a mask has a truth value for each of the {len(trials)} trials, in the order of run.trials",
            'or ask by a query, "block > 2", or take some away: run.without("t0007")',
        )
    return [bool(value) for value in values]


def but(trials: pd.DataFrame, names: Sequence[str], where: str) -> pd.DataFrame:
    """Return the trials without those of these names."""
    for name in names:
        if name not in set(trials["trial"]):
            raise unknown_name_error("trial", name, trials["trial"], where)
    return trials[~trials["trial"].isin(list(names))]


def cut(data: RunData, kept: pd.DataFrame) -> RunData:
    """Return the run with these trials, and what was said of no trial."""
    if kept.empty:
        raise UsageError("no trial is left", "run.trials has all of them")
    names = set(kept["trial"])
    frames = {name: getattr(data, name) for name in CUT}
    mine = {name: f[f["trial"].isin(names) | (f["trial"].isna() & (name == "problems"))] for name, f in frames.items()}
    plan = data.plan | {"blocks": whole_blocks(kept)}
    return replace(data, trials=kept.reset_index(drop=True), plan=plan, **mine)
