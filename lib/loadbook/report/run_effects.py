"""The effects of one run, for its study's history: what its report says of each comparison, kept with its tables.

Intervals of many trials take a second or so to compute, a history has a hundred runs, and what a run found changes only
with its tables or with our statistics.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import loadbook.stats
from loadbook.core.errors import DataError
from loadbook.core.metrics import METRICS
from loadbook.records.conditions import RunRecord, treatment_contrast
from loadbook.records.layout import RunPaths
from loadbook.records.manifest import read_json, write_json
from loadbook.records.rundata import RunData
from loadbook.records.schema import TABLES, read_table
from loadbook.stats.history.result import RunEffect
from loadbook.stats.result import Analysis, AnalysisRow

EFFECT_TABLES = ("trials", "measurements", "samples", "problems")  # traces are large, and no effect depends on them


def run_effects(paths: RunPaths, record: RunRecord, metric: str) -> tuple[RunEffect, ...]:
    """Return every comparison of an ingested run on a metric, checks included.

    Raises
    ------
    DataError : a table cannot be read.
    """
    cache, key = paths.processed / f".effects-{metric}.json", _cache_key(paths, record)
    records = _read_cached_effects(cache, key)
    if records is None:
        records = [asdict(effect) for effect in _compute_effects(paths, record, metric)]
        write_json(cache, {"key": key, "effects": records})
    return tuple(_effect_from_record(one) for one in records)


def _read_cached_effects(cache: Path, key: str) -> list[dict[str, Any]] | None:
    try:
        document = read_json(cache)
    except DataError:  # none yet, or torn
        return None
    found: list[dict[str, Any]] | None = document["effects"] if isinstance(document, dict) and document.get("key") == key else None
    return found


def _effect_from_record(record: dict[str, Any]) -> RunEffect:
    return RunEffect(**record | {"interval": tuple(record["interval"]) if record["interval"] else None})


def _cache_key(paths: RunPaths, record: RunRecord) -> str:
    """Return what tells whether tables, plan and statistics are those that were remembered."""
    tables = [found.stat() for name in EFFECT_TABLES if (found := paths.table(name)).is_file()]
    return _short_digest([_stats_version(), [(table.st_size, table.st_mtime_ns) for table in tables], _short_digest(record.plan)])


@cache
def _stats_version() -> str:
    """Return what tells one version of our statistics from another."""
    files = sorted(Path(loadbook.stats.__file__).parent.rglob("*.py"))
    return _short_digest([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files])


def _short_digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _compute_effects(paths: RunPaths, record: RunRecord, metric: str) -> list[RunEffect]:
    import pandas as pd

    from loadbook.stats.parts import analyse_strata

    frames = {name: read_table(paths.table(name), name) for name in EFFECT_TABLES}
    traces = pd.DataFrame(columns=list(TABLES["traces"]))
    data = RunData(record.study, paths.raw.name, paths, record.plan, record.run_json, record.facts,
                   traces=traces, **frames)  # fmt: skip
    found = analyse_strata(data, metric=metric, fixed=True)
    return [_row_effect(record, found, row) for row in found.rows if row.kind != "baseline"]


def _row_effect(record: RunRecord, found: Analysis, row: AnalysisRow) -> RunEffect:
    verdict = row.verdict
    comparison = verdict.comparison if verdict else None
    return RunEffect(
        treatment=row.treatment,
        label=row.label,
        kind=row.kind,
        verdict=verdict.kind if verdict else "invalid",
        effect=comparison.effect if comparison else None,
        interval=comparison.ci95 if comparison else None,
        level=comparison.level if comparison else found.level,
        blocks=comparison.blocks if comparison else 0,
        reason=None if verdict and verdict.kind != "invalid" else (verdict and verdict.reason) or "it has no values",
        passed=row.passed,
        asked=_question_parts(record, found, row.treatment, comparison.baseline if comparison else found.baseline),
    )


def _question_parts(record: RunRecord, found: Analysis, treatment: str, against: str) -> dict[str, str]:
    """Return the parts of the question that one comparison answers."""
    study = record.study
    declared = study.model_dump(mode="json", include={"workload", "roles"})
    return {
        "metric": study.metric if study.metric in METRICS else found.metric,
        "margin": f"{found.margin:g}",
        "what it is compared with": against,
        "what sets it apart": _short_digest(treatment_contrast(study, treatment, against)),
        "the load": _short_digest(declared["workload"]),
        "the set-up of the roles": _short_digest(declared["roles"]),
    }
