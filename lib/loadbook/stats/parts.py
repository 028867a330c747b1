"""A run in parts: one for each level of the factor that is a condition, not a choice (near or remote, say).

Treatments of different parts are never compared: each part is the run as if its treatments had been its whole study.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from loadbook.records.rundata import RunData
from loadbook.stats.analyse import analyse
from loadbook.stats.question import treatments_of
from loadbook.stats.result import Analysis, Row

if TYPE_CHECKING:
    import pandas as pd


FRAMES = ("measurements", "samples", "traces", "problems")


def analyse_parts(
    data: RunData,
    *,
    baseline: str | None = None,
    metric: str | None = None,
    statistic: str | None = None,
    level: float = 0.95,
    fixed: bool = False,
) -> Analysis:
    """Answer the study's question under each condition that is judged apart, as `analyse` does of a whole run.

    Parameters
    ----------
    baseline : another than the study's: everything is then held against it, whatever the condition.
    fixed : hold everything against the study's baseline also where it asks for the arm observed best, which may be
        another one in every run.
    """
    found = {}
    for name, part in ({"": data} if baseline else parts_of(data)).items():
        own = part.study.baseline if fixed and part.study.contrasts == "best" else None
        found[name] = analyse(part, baseline=baseline or own, metric=metric, statistic=statistic, level=level)
    return together(found) if len(found) > 1 else next(iter(found.values()))


def parts_of(data: RunData) -> dict[str, RunData]:
    """Return level -> the part of the run under that condition (`Study.apart`); one part called "" without any.

    "near: " before a label is left out in the part that is called near.
    """
    study, levels = data.study, dict[str, list[str]]()
    if study.apart is None:
        return {"": data}
    for name in treatments_of(data):
        levels.setdefault(str(study.levels_of(name)[study.apart]), []).append(name)
    return {
        level: only(_relabelled(data, level), names, baseline=study.baseline_of(names[0]), apart=None)
        for level, names in levels.items()
    }


def only(data: RunData, treatments: Collection[str], **changes: Any) -> RunData:
    """Return the run as if it had these treatments alone, in a study with `changes`."""
    study, names = data.study, [name for name in treatments_of(data) if name in treatments]
    kept = {name: study.treatments[name] for name in names}
    published = study.published and study.published.model_copy(
        update={"claims": tuple(claim for claim in study.published.claims if set(claim.arms) <= set(kept))}
    )
    trials = data.trials[data.trials["treatment"].isin(names)].reset_index(drop=True)
    there = {name: frame for name in FRAMES if (frame := getattr(data, name, None)) is not None}
    frames: dict[str, Any] = {name: _of(frame, trials, whole=name == "problems") for name, frame in there.items()}
    return replace(
        data,
        study=study.model_copy(update={"treatments": kept, "published": published} | changes),
        plan=data.plan | {"treatments": names},
        trials=trials,
        **frames,
    )


def together(parts: dict[str, Analysis]) -> Analysis:
    """Return one analysis with the rows of all parts, part by part, each against the baseline of its own part."""
    found = list(parts.values())
    rows = tuple(_named(level, row) for level, analysis in parts.items() for row in analysis.rows)
    void = [analysis.laboratory for analysis in found if analysis.laboratory]
    return replace(
        found[0],
        rows=rows,
        best=None,
        tied_with_best=(),
        laboratory=void[0] if len(void) == len(found) else None,
    )


def _named(level: str, row: Row) -> Row:
    return replace(row, label=f"{level}: {row.label}") if level else row


def _relabelled(data: RunData, level: str) -> RunData:
    """Return the run with labels that do not say in which part they are."""
    treatments = {
        name: spec.model_copy(update={"label": data.study.label(name).removeprefix(f"{level}: ")})
        for name, spec in data.study.treatments.items()
    }
    return replace(data, study=data.study.model_copy(update={"treatments": treatments}))


def _of(frame: pd.DataFrame, trials: pd.DataFrame, *, whole: bool) -> pd.DataFrame:
    """Return the rows of these trials; with `whole` those of the run as such, too."""
    mine = frame["trial"].isin(trials["trial"])
    return frame[mine | frame["trial"].isna()] if whole else frame[mine]
