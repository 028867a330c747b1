"""Causes of trials that do not count, in plain words, and what a run lacks because of them or as it is not finished."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from loadbook.core.units import pluralize
from loadbook.core.validity_rules import ExclusionCause, exclusion_cause, status_cause
from loadbook.modes.plain.stats import stats_of
from loadbook.stats.compare import MAX_INCOMPLETE_SHARE, MIN_BLOCKS
from loadbook.store.ledger import interrupted_text
from loadbook.store.tables import RunTables

if TYPE_CHECKING:
    import pandas as pd

MAX_CAUSES = 2


def with_causes(data: RunTables) -> pd.DataFrame:
    """Return the trials of a run with the columns `gates` and `cause`.

    If problems are recorded, `gates` keeps only the validity rules that excluded the trial. `cause` is an
    `ExclusionCause` of what these rules, or else the status of the trial, say; None for a trial that counts.
    """
    trials = data.trials
    messages: dict[tuple[str, str], str] = {}  # by trial and rule
    if data.problems is not None:
        invalid = data.problems[data.problems["level"] == "invalid"]
        names = invalid.groupby("trial")["name"].agg(lambda rules: sorted(set(rules)))
        gates: Any = [names.get(trial, []) for trial in trials["trial"]]
        trials = trials.assign(gates=gates)
        if "message" in invalid:
            told = invalid[["trial", "name", "message"]].dropna()
            messages = {(trial, rule): message for trial, rule, message in told.itertuples(index=False)}
    usable = (trials["status"] == "ok") & trials["valid"].astype(bool)
    causes = []
    for trial, rules, status in zip(trials["trial"], trials["gates"], trials["status"], strict=True):
        found = [exclusion_cause(gate, messages.get((trial, gate), "")) for gate in rules]
        text = ", ".join(cause.text for cause in found)
        causes.append(ExclusionCause(text, found[0].remedy) if found else status_cause(str(status)))
    if (no_result := stats_of(data.study).no_result_text(data.study)) is not None:
        causes = [ExclusionCause(no_result) if cause == status_cause("invalid") else cause for cause in causes]
    own: Any = [None if used else cause for used, cause in zip(usable, causes, strict=True)]
    return trials.assign(cause=own)


def exclusion_text(causes: Counter[ExclusionCause]) -> str:
    """Return the two most frequent causes of excluded trials as text, each with its number of trials."""
    shown = [f"{cause.text} in {pluralize(number, 'trial')}" for cause, number in causes.most_common(MAX_CAUSES)]
    more = [f"{len(causes) - MAX_CAUSES} other causes"] if len(causes) > MAX_CAUSES else []
    return ", ".join(shown + more)


def blocks_missing(complete: int, incomplete: int) -> int:
    """Return how many more complete blocks a comparison needs: five in all, and at most 20 % incomplete ones."""
    total = math.ceil(incomplete / MAX_INCOMPLETE_SHARE - 1e-9)
    return max(0, MIN_BLOCKS - complete, total - complete - incomplete)


def unfinished_text(data: RunTables) -> str:
    """Return how far the run is, and the command that goes on, if it is not finished; else ""."""
    record = data.run_record
    if record is None or record.is_finished or not data.plan.trials:
        return ""
    done = set(data.trials.loc[data.trials["status"] != "cancelled", "trial"])
    return interrupted_text(data.plan, done, record.run_command)
