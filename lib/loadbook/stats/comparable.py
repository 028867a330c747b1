"""May two runs be compared? What forbids it, which treatments are not one thing in both, and what remains in doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from loadbook.core.errors import UsageError
from loadbook.records.conditions import LOAD_KEYS, ConditionChange, HasRunRecord, treatment_contrast
from loadbook.records.rundata import RunData
from loadbook.stats.wording.sentences import added_blocks_text, margin_text

MAX_LISTED = 3


class Caveat(NamedTuple):
    """Why a comparison of two runs may mislead although it can be made."""

    title: str
    text: str


def check_comparable(older: HasRunRecord, newer: HasRunRecord, metric: str = "", baseline: str = "") -> None:
    """Raise UsageError where the two runs hold no two answers to one question.

    Parameters
    ----------
    metric, baseline : asked for by the user; empty: what the studies declare, which must then agree.
    """
    if older.study.name != newer.study.name:
        names = [f"run {_run_id(run)} is of study {run.study.name!r}" for run in (older, newer)]
        raise UsageError(", ".join(names), "only runs of one study are compared")
    if _measured_run_id(older) == _measured_run_id(newer):
        raise _same_measurements_error(older, newer, f"those of run {_measured_run_id(older)}")
    _check_declared_alike(older, newer, "metric", metric)
    _check_declared_alike(older, newer, "baseline", baseline)
    if not set(older.plan["treatments"]) & set(newer.plan["treatments"]):
        raise UsageError(
            f"runs {_run_id(older)} and {_run_id(newer)} have no treatment in common",
            f"{_shortened_list(older.plan['treatments'])} there, {_shortened_list(newer.plan['treatments'])} here",
        )


def _check_declared_alike(older: HasRunRecord, newer: HasRunRecord, name: str, requested: str) -> None:
    older_value, newer_value = (getattr(run.study, name) for run in (older, newer))
    if not requested and older_value != newer_value:
        raise UsageError(
            f"the study's {name} was {older_value} in run {_run_id(older)} and is {newer_value} in run {_run_id(newer)}",
            f"say which one is meant: -p {name}={newer_value}",
        )


def _run_id(run: HasRunRecord) -> str:
    return str(run.run_json["run"])


def _measured_run_id(run: HasRunRecord) -> str:
    """Return the run whose measurements these are."""
    return run.run_json.get("replay") or _run_id(run)


def _same_measurements_error(older: HasRunRecord, newer: HasRunRecord, evidence: str) -> UsageError:
    hint = "a replay or a copy measures nothing anew; compare with a run of another time"
    return UsageError(f"runs {_run_id(older)} and {_run_id(newer)} hold the very measurements of one run: {evidence}", hint)


def check_not_copies(older: RunData, newer: RunData) -> None:
    """Raise UsageError where every measured value of two runs is equal: one is a copy, whatever it is called."""
    columns = ["trial", "metric", "statistic", "value"]
    values = [run.measurements.loc[run.measurements["driver"] == "*", columns] for run in (older, newer)]
    ordered = [frame.sort_values(columns, ignore_index=True) for frame in values]
    if len(ordered[0]) and ordered[0].equals(ordered[1]):
        raise _same_measurements_error(older, newer, f"all {len(ordered[0]):,} values are equal")


def _shortened_list(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_LISTED]) + (", ..." if len(names) > MAX_LISTED else "")


def changed_treatments(older: HasRunRecord, newer: HasRunRecord, baseline: str = "") -> dict[str, str]:
    """Return treatment -> why it is not one thing in both runs: other things set it apart from its baseline."""
    reason_by_treatment = {}
    for name in newer.plan["treatments"]:
        if name in older.plan["treatments"]:
            older_settings, newer_settings = (_settings_against_baseline(run, name, baseline) for run in (older, newer))
            if older_settings != newer_settings:
                reason_by_treatment[name] = f"it is another treatment: {_describe_difference(older_settings, newer_settings)}"
    return reason_by_treatment


def _settings_against_baseline(run: HasRunRecord, name: str, baseline: str) -> dict[str, tuple[Any, Any]]:
    return treatment_contrast(run.study, name, baseline or run.study.baseline_of(name))


def _describe_difference(older_settings: Mapping[str, tuple[Any, Any]], newer_settings: Mapping[str, tuple[Any, Any]]) -> str:
    """Return by what a treatment differs from its baseline in one run and not so in the other."""
    names = [name for name in dict.fromkeys([*older_settings, *newer_settings]) if older_settings.get(name) != newer_settings.get(name)]
    differences = [f"{name} {_change_text(older_settings.get(name))} in the older run, {_change_text(newer_settings.get(name))} in the newer"
            for name in names[:MAX_LISTED]]  # fmt: skip
    return "; ".join(differences) + (f"; {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else "")


def _change_text(values: tuple[Any, Any] | None) -> str:
    return f"{values[0]} → {values[1]}" if values else "as the baseline"


def comparison_caveats(older: HasRunRecord, newer: HasRunRecord, changes: Sequence[ConditionChange]) -> list[Caveat]:
    """Return what a reader must know before a change is believed; that two runs cannot tell why comes last."""
    caveats = [*_run_caveats("The older run", older), *_run_caveats("The newer run", newer)]
    margins = [run.study.margin for run in (older, newer)]
    if margins[0] != margins[1]:
        declared = f"the older run declared {margin_text(margins[0])}, the newer {margin_text(margins[1])}"
        caveats.append(Caveat("Other margin", f"{declared}; judged by the smaller"))
    load_changes = [change for change in changes if change.category == "study" and change.name.startswith(LOAD_KEYS)]
    if load_changes:
        names = _shortened_list([change.name for change in load_changes])
        caveats.append(Caveat("Other load or set-up", f"{names}: an effect may be another one there"))
    return [*caveats, Caveat("Two runs tell that, not why", CAUSE_UNKNOWN)]


CAUSE_UNKNOWN = (
    "an interval knows how blocks scatter within each run, not how effects scatter from run to run; whatever changed "
    "between the runs, recorded or not, moved with them. Going back and measuring once more would tell"
)


def _run_caveats(subject: str, run: HasRunRecord) -> Iterator[Caveat]:
    run_json = run.run_json
    if run_json.get("replay"):
        yield Caveat(f"{subject} is a replay", f"of run {run_json['replay']}: nothing was measured anew")
    if run_json.get("imported"):
        yield Caveat(f"{subject} was imported", "loadbook measured nothing, and what nobody recorded cannot have changed")
    elif run_json.get("ended") is None:
        yield Caveat(f"{subject} did not end", "its last blocks are missing, and its hosts were not looked at again")
    if run.plan.get("added"):
        yield Caveat(f"{subject} is exploratory", f"{added_blocks_text(run.plan['added'])}, which favours differences")
