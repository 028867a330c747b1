"""The rows of the gate matrix: what each gate said of each trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd

from loadbook.report.figures.text import drawable

LEVELS = ("invalid", "doubt", "note", "unchecked")
WORDS = {"invalid": "✕ not counted", "doubt": "! doubt", "note": "note", "unchecked": "not checked"}


@dataclass(frozen=True)
class Gate:
    """One row: worst level, hits (trial, level), what it said of the whole run, why and where it was not checked.

    `blind` are the slots of the trials that it could not check; `count` is what stands at the right.
    """

    title: str
    level: str | None
    hits: pd.DataFrame
    whole_run: str | None
    unchecked: str | None
    blind: tuple[int, ...]
    wholly_unchecked: bool
    count: str


def gates_of(
    trials: pd.DataFrame, problems: pd.DataFrame, titles: Mapping[str, str], labels: Mapping[str, str]
) -> list[Gate]:
    """Return the rows: known gates and whatever else spoke, the worst level and the most hits first."""
    spoken = problems[problems["level"].isin(LEVELS)]
    named = dict(titles) | {n: _plain(n) for n in sorted(set(spoken["name"]) - set(titles))}
    own, quiet = dict(iter(spoken.groupby("name"))), _gate("", spoken.iloc[:0], trials, labels)  # most are quiet
    rows = [
        _gate(title, own[name], trials, labels) if name in own else replace(quiet, title=title)
        for name, title in named.items()
    ]
    explained = set(spoken.loc[spoken["level"] == "invalid", "trial"])
    rest = trials[~trials["valid"] & ~trials["trial"].isin(explained)]
    if len(rest):
        ended = rest[["trial"]].assign(level="invalid", message="did not end as it should")
        rows.append(_gate("Trial did not end as it should", ended, trials, labels))
    order = {level: n for n, level in enumerate((*LEVELS, None))}
    return sorted(rows, key=lambda gate: (order[gate.level], -len(gate.hits), gate.title))


def _plain(name: str) -> str:
    text = drawable(name, "gate").replace("-", " ").replace("_", " ")
    return text[:1].upper() + text[1:]


def _gate(title: str, said: pd.DataFrame, trials: pd.DataFrame, labels: Mapping[str, str]) -> Gate:
    level = next((level for level in LEVELS if (said["level"] == level).any()), None)
    loud = said[said["level"] != "unchecked"]
    known = trials[["trial", "slot", "treatment"]]
    hits = loud.drop_duplicates(["trial", "level"]).merge(known, on="trial", how="inner")
    whole = loud.loc[loud["trial"].isna(), "level"]
    silent = said[said["level"] == "unchecked"]
    unchecked = str(silent["message"].iloc[0]) if len(silent) else None
    everywhere = bool(silent["trial"].isna().any()) and hits.empty
    blind = known["slot"] if everywhere else known.loc[known["trial"].isin(silent["trial"]), "slot"]
    whole_run = next((lv for lv in LEVELS if (whole == lv).any()), None)
    wholly = bool(unchecked) and hits.empty and not whole_run and len(blind) == len(trials)
    text = _count(hits, whole_run, len(blind), trials, labels)
    return Gate(title, level, hits, whole_run, unchecked, tuple(sorted(blind)), wholly, text)


def _count(
    hits: pd.DataFrame, whole_run: str | None, blind: int, trials: pd.DataFrame, labels: Mapping[str, str]
) -> str:
    """Return what stands at the right: how many trials were hit, and whether all are of one treatment."""
    if whole_run:
        return f"{WORDS[whole_run]}: whole run"
    numbers = {level: hits.loc[hits["level"] == level, "trial"].nunique() for level in LEVELS}
    told = [level for level in ("invalid", "doubt") if numbers[level]] or ["note"] * bool(numbers["note"])
    parts = [f"{WORDS[level]}: {numbers[level]}" for level in told]
    if blind:
        parts.append("not checked" if hits.empty and blind == len(trials) else f"not checked: {blind}")
    text = ", ".join(parts) or "0"
    treatments = list(hits["treatment"].unique())
    if hits["trial"].nunique() > 1 and len(treatments) == 1 and trials["treatment"].nunique() > 1:
        text += f", all {drawable(labels.get(treatments[0], treatments[0]), treatments[0])}"
    return text
