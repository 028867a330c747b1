"""DataFrames of trials for the tests of statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from loadbook.stats.results import Comparison, Verdict, VerdictKind


def frame(arms: Mapping[str, Sequence[float | None] | np.ndarray]) -> pd.DataFrame:
    """Return a DataFrame with one row per treatment and block; None stands for a trial without a value."""
    rows = [(name, block, value) for name, values in arms.items() for block, value in enumerate(values, 1)]
    return pd.DataFrame(rows, columns=["treatment", "block", "value"]).astype({"value": float})


def noisy(
    blocks: int, effects: Mapping[str, float], *, sd: float = 0.01, shared: float = 0.03, seed: int = 1
) -> pd.DataFrame:
    """Return simulated trials with these true log effects, noise `sd` per trial and noise `shared` per block."""
    rng = np.random.default_rng(seed)
    common = rng.normal(0, shared, blocks)
    return frame({name: 40_000 * np.exp(common + e + rng.normal(0, sd, blocks)) for name, e in effects.items()})


def comparison(effect: float = 0.06, low: float = 0.051, high: float = 0.068, **more: Any) -> Comparison:
    """Return a comparison with these numbers, for tests of wording."""
    middle, half = (low + high) / 2, (high - low) / 2 * 0.82
    known: dict[str, Any] = {
        "treatment": "t", "baseline": "b", "metric": "ok_per_s", "statistic": "value", "blocks": 12, "excluded": 0,
        "method": "blocked-rank", "effect": effect, "ci95": (low, high), "ci90": (middle - half, middle + half),
        "p": 0.0005, "sd_log": 0.02,
    }  # fmt: skip
    return Comparison(**(known | more))


def verdict(kind: VerdictKind, margin: float = 0.02, **more: Any) -> Verdict:
    """Return a verdict of this kind on `comparison(...)`, for tests of wording."""
    own = {k: more.pop(k) for k in ("forecast", "reason", "decimals") if k in more}
    return Verdict(kind, comparison(**more), margin, **own)
