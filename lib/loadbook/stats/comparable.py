"""May two runs be compared? What forbids it, which treatments are not one thing in both, and what remains in doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from loadbook.core.errors import UsageError
from loadbook.records.conditions import LOAD, Change, Recorded, contrast
from loadbook.records.rundata import RunData
from loadbook.stats.wording.sentences import added_after, margin_text

MAX_SAID = 3


class Doubt(NamedTuple):
    """Why a comparison of two runs may mislead although it can be made."""

    title: str
    text: str


def refuse(older: Recorded, newer: Recorded, metric: str = "", baseline: str = "") -> None:
    """Raise UsageError where the two runs hold no two answers to one question.

    Parameters
    ----------
    metric, baseline : asked for by the user; empty: what the studies declare, which must then agree.
    """
    if older.study.name != newer.study.name:
        names = [f"run {_id(run)} is of study {run.study.name!r}" for run in (older, newer)]
        raise UsageError(", ".join(names), "only runs of one study are compared")
    if _origin(older) == _origin(newer):
        raise _one_measurement(older, newer, f"those of run {_origin(older)}")
    _declared(older, newer, "metric", metric)
    _declared(older, newer, "baseline", baseline)
    if not set(older.plan["treatments"]) & set(newer.plan["treatments"]):
        raise UsageError(
            f"runs {_id(older)} and {_id(newer)} have no treatment in common",
            f"{_few(older.plan['treatments'])} there, {_few(newer.plan['treatments'])} here",
        )


def _declared(older: Recorded, newer: Recorded, name: str, asked: str) -> None:
    ours, theirs = (getattr(run.study, name) for run in (older, newer))
    if not asked and ours != theirs:
        raise UsageError(
            f"the study's {name} was {ours} in run {_id(older)} and is {theirs} in run {_id(newer)}",
            f"say which one is meant: -p {name}={theirs}",
        )


def _id(run: Recorded) -> str:
    return str(run.run_json["run"])


def _origin(run: Recorded) -> str:
    """Return the run whose measurements these are."""
    return run.run_json.get("replay") or _id(run)


def _one_measurement(older: Recorded, newer: Recorded, which: str) -> UsageError:
    hint = "a replay or a copy measures nothing anew; compare with a run of another time"
    return UsageError(f"runs {_id(older)} and {_id(newer)} hold the very measurements of one run: {which}", hint)


def refuse_copies(older: RunData, newer: RunData) -> None:
    """Raise UsageError where every measured value of two runs is equal: one is a copy, whatever it is called."""
    columns = ["trial", "metric", "statistic", "value"]
    values = [run.measurements.loc[run.measurements["driver"] == "*", columns] for run in (older, newer)]
    ordered = [frame.sort_values(columns, ignore_index=True) for frame in values]
    if len(ordered[0]) and ordered[0].equals(ordered[1]):
        raise _one_measurement(older, newer, f"all {len(ordered[0]):,} values are equal")


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_SAID]) + (", ..." if len(names) > MAX_SAID else "")


def unlike(older: Recorded, newer: Recorded, baseline: str = "") -> dict[str, str]:
    """Return treatment -> why it is not one thing in both runs: other things set it apart from its baseline."""
    found = {}
    for name in newer.plan["treatments"]:
        if name in older.plan["treatments"]:
            ours, theirs = (_apart(run, name, baseline) for run in (older, newer))
            if ours != theirs:
                found[name] = f"it is another treatment: {_told(ours, theirs)}"
    return found


def _apart(run: Recorded, name: str, baseline: str) -> dict[str, tuple[Any, Any]]:
    return contrast(run.study, name, baseline or run.study.baseline_of(name))


def _told(ours: Mapping[str, tuple[Any, Any]], theirs: Mapping[str, tuple[Any, Any]]) -> str:
    """Return by what a treatment differs from its baseline in one run and not so in the other."""
    names = [name for name in dict.fromkeys([*ours, *theirs]) if ours.get(name) != theirs.get(name)]
    said = [f"{name} {_from_to(ours.get(name))} in the older run, {_from_to(theirs.get(name))} in the newer"
            for name in names[:MAX_SAID]]  # fmt: skip
    return "; ".join(said) + (f"; {len(names) - MAX_SAID} more" if len(names) > MAX_SAID else "")


def _from_to(values: tuple[Any, Any] | None) -> str:
    return f"{values[0]} → {values[1]}" if values else "as the baseline"


def doubts(older: Recorded, newer: Recorded, changes: Sequence[Change]) -> list[Doubt]:
    """Return what a reader must know before a change is believed; that two runs cannot tell why comes last."""
    found = [*_of_run("The older run", older), *_of_run("The newer run", newer)]
    margins = [run.study.margin for run in (older, newer)]
    if margins[0] != margins[1]:
        told = f"the older run declared {margin_text(margins[0])}, the newer {margin_text(margins[1])}"
        found.append(Doubt("Other margin", f"{told}; judged by the smaller"))
    load = [change for change in changes if change.about == "study" and change.name.startswith(LOAD)]
    if load:
        names = _few([change.name for change in load])
        found.append(Doubt("Other load or set-up", f"{names}: an effect may be another one there"))
    return [*found, Doubt("Two runs tell that, not why", ONLY_TWO)]


ONLY_TWO = (
    "an interval knows how blocks scatter within each run, not how effects scatter from run to run; whatever changed "
    "between the runs, recorded or not, moved with them. Going back and measuring once more would tell"
)


def _of_run(which: str, run: Recorded) -> Iterator[Doubt]:
    told = run.run_json
    if told.get("replay"):
        yield Doubt(f"{which} is a replay", f"of run {told['replay']}: nothing was measured anew")
    if told.get("imported"):
        yield Doubt(f"{which} was imported", "loadbook measured nothing, and what nobody recorded cannot have changed")
    elif told.get("ended") is None:
        yield Doubt(f"{which} did not end", "its last blocks are missing, and its hosts were not looked at again")
    if run.plan.get("added"):
        yield Doubt(f"{which} is exploratory", f"{added_after(run.plan['added'])}, which favours differences")
