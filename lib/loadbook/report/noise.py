"""How much trials of one treatment scatter, and what so many blocks can detect at that noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from loadbook.core.units import format_percent
from loadbook.report.tables import DASH, Column, Table
from loadbook.stats.plan import detectable_effect

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.result import Analysis

MIN_NOISE_TRIALS = 3


def noise_table(values: pd.DataFrame, labels: Mapping[str, str]) -> Table:
    """Return per treatment: valid trials, coefficient of variation, and that which blocks do not explain."""
    rows = []
    residual_rows = block_residuals(values)
    ran = set(values["treatment"])
    for name in filter(ran.__contains__, labels):
        own = values[values["treatment"] == name]
        valid = own.loc[own["valid"], "value"].dropna()
        inside = residual_rows.loc[residual_rows["treatment"] == name, "residual"]
        rows.append([labels[name], f"{len(valid)} of {len(own)}", _cv_text(valid), _sd_text(inside)])
    columns = [
        Column("Treatment"), Column("Valid trials", True), Column("Scatter of trials (CV)", True),
        Column("Scatter within blocks", True),
    ]  # fmt: skip
    return Table("Noise", columns, rows)


def block_residuals(values: pd.DataFrame) -> pd.DataFrame:
    """Return log values of valid trials less their treatment's median and their block's median (`residual`)."""
    import numpy as np

    valid = values[values["valid"] & (values["value"] > 0)].copy()
    logs = np.log(valid["value"])
    logs -= logs.groupby(valid["treatment"]).transform("median")
    valid["residual"] = logs - logs.groupby(valid["block"]).transform("median")
    return valid


def noise_sentence(values: pd.DataFrame, analysis: Analysis) -> str:
    """Return the smallest difference that this run's blocks find with a probability of 80 %."""
    spreads = [
        c.sd_log for r in analysis.of_kind("treatment", "aa") if r.verdict and (c := r.verdict.comparison).sd_log
    ]
    blocks = analysis.planned_blocks
    if not spreads or blocks < 2:
        return "Too few valid trials to measure the noise."
    middle = sorted(spreads)[len(spreads) // 2]
    found = format_percent(detectable_effect(blocks, middle), 1, signed=False)
    return (
        f"At this noise {blocks} blocks find a difference of {found} with a probability of 80 % "
        f"(standard deviation of a block’s ratio: {format_percent(math.expm1(middle), 1, signed=False)})."
    )


def _cv_text(values: pd.Series) -> str:
    enough = len(values) >= MIN_NOISE_TRIALS and values.mean() > 0
    return format_percent(float(values.std() / values.mean()), 1, signed=False) if enough else DASH


def _sd_text(logs: pd.Series) -> str:
    return format_percent(math.expm1(float(logs.std())), 1, signed=False) if len(logs) >= MIN_NOISE_TRIALS else DASH
