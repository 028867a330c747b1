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
from loadbook.stats.result import Analysis, AnalysisRow

if TYPE_CHECKING:
    import pandas as pd


TABLES = ("measurements", "samples", "traces", "problems")


def analyse_strata(
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
    analyses = {}
    for name, stratum in ({"": data} if baseline else strata_of(data)).items():
        stratum_baseline = stratum.study.baseline if fixed and stratum.study.contrasts == "best" else None
        analyses[name] = analyse(stratum, baseline=baseline or stratum_baseline, metric=metric, statistic=statistic, level=level)
    return combine_strata(analyses) if len(analyses) > 1 else next(iter(analyses.values()))


def strata_of(data: RunData) -> dict[str, RunData]:
    """Return level -> the part of the run under that condition (`Study.apart`); one part called "" without any.

    "near: " before a label is left out in the part that is called near.
    """
    study, levels = data.study, dict[str, list[str]]()
    if study.apart is None:
        return {"": data}
    for name in treatments_of(data):
        levels.setdefault(str(study.levels_of(name)[study.apart]), []).append(name)
    return {
        level: restrict_to(_without_stratum_label(data, level), names, baseline=study.baseline_of(names[0]), apart=None)
        for level, names in levels.items()
    }


def restrict_to(data: RunData, treatments: Collection[str], **changes: Any) -> RunData:
    """Return the run as if it had these treatments alone, in a study with `changes`."""
    study, kept_names = data.study, [name for name in treatments_of(data) if name in treatments]
    specs = {name: study.treatments[name] for name in kept_names}
    published = study.published and study.published.model_copy(
        update={"claims": tuple(claim for claim in study.published.claims if set(claim.treatments) <= set(specs))}
    )
    trials = data.trials[data.trials["treatment"].isin(kept_names)].reset_index(drop=True)
    present = {name: frame for name in TABLES if (frame := getattr(data, name, None)) is not None}
    frames: dict[str, Any] = {name: _rows_of_trials(frame, trials, whole=name == "problems") for name, frame in present.items()}
    return replace(
        data,
        study=study.model_copy(update={"treatments": specs, "published": published} | changes),
        plan=data.plan | {"treatments": kept_names},
        trials=trials,
        **frames,
    )


def combine_strata(analysis_by_level: dict[str, Analysis]) -> Analysis:
    """Return one analysis with the rows of all parts, part by part, each against the baseline of its own part."""
    analyses = list(analysis_by_level.values())
    rows = tuple(_with_stratum_label(level, row) for level, analysis in analysis_by_level.items() for row in analysis.rows)
    aa_failures = [analysis.aa_failure for analysis in analyses if analysis.aa_failure]
    return replace(
        analyses[0],
        rows=rows,
        best=None,
        tied_with_best=(),
        aa_failure=aa_failures[0] if len(aa_failures) == len(analyses) else None,
    )


def _with_stratum_label(level: str, row: AnalysisRow) -> AnalysisRow:
    return replace(row, label=f"{level}: {row.label}") if level else row


def _without_stratum_label(data: RunData, level: str) -> RunData:
    """Return the run with labels that do not say in which part they are."""
    treatments = {
        name: spec.model_copy(update={"label": data.study.label(name).removeprefix(f"{level}: ")})
        for name, spec in data.study.treatments.items()
    }
    return replace(data, study=data.study.model_copy(update={"treatments": treatments}))


def _rows_of_trials(frame: pd.DataFrame, trials: pd.DataFrame, *, whole: bool) -> pd.DataFrame:
    """Return the rows of these trials; with `keep_run_rows` those of the run as such, too."""
    selected = frame["trial"].isin(trials["trial"])
    return frame[selected | frame["trial"].isna()] if whole else frame[selected]
