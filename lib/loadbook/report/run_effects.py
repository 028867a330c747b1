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
from loadbook.records.conditions import Record, contrast
from loadbook.records.layout import RunPaths
from loadbook.records.manifest import read_json, write_json
from loadbook.records.rundata import RunData
from loadbook.records.schema import TABLES, read_table
from loadbook.stats.history.result import Effect
from loadbook.stats.result import Analysis, Row

READ = ("trials", "measurements", "samples", "problems")  # traces are large, and no effect depends on them


def effects(paths: RunPaths, record: Record, metric: str) -> tuple[Effect, ...]:
    """Return every comparison of an ingested run on a metric, checks included.

    Raises
    ------
    DataError : a table cannot be read.
    """
    kept, key = paths.processed / f".effects-{metric}.json", _key(paths, record)
    known = _remembered(kept, key)
    if known is None:
        known = [asdict(effect) for effect in _computed(paths, record, metric)]
        write_json(kept, {"key": key, "effects": known})
    return tuple(_effect(one) for one in known)


def _remembered(kept: Path, key: str) -> list[dict[str, Any]] | None:
    try:
        said = read_json(kept)
    except DataError:  # none yet, or torn
        return None
    found: list[dict[str, Any]] | None = said["effects"] if isinstance(said, dict) and said.get("key") == key else None
    return found


def _effect(said: dict[str, Any]) -> Effect:
    return Effect(**said | {"interval": tuple(said["interval"]) if said["interval"] else None})


def _key(paths: RunPaths, record: Record) -> str:
    """Return what tells whether tables, plan and statistics are those that were remembered."""
    tables = [found.stat() for name in READ if (found := paths.table(name)).is_file()]
    return _digest([_statistics(), [(table.st_size, table.st_mtime_ns) for table in tables], _digest(record.plan)])


@cache
def _statistics() -> str:
    """Return what tells one version of our statistics from another."""
    files = sorted(Path(loadbook.stats.__file__).parent.rglob("*.py"))
    return _digest([(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _computed(paths: RunPaths, record: Record, metric: str) -> list[Effect]:
    import pandas as pd

    from loadbook.stats.parts import analyse_parts

    frames = {name: read_table(paths.table(name), name) for name in READ}
    traces = pd.DataFrame(columns=list(TABLES["traces"]))
    data = RunData(record.study, paths.raw.name, paths, record.plan, record.run_json, record.facts,
                   traces=traces, **frames)  # fmt: skip
    found = analyse_parts(data, metric=metric, fixed=True)
    return [_of_row(record, found, row) for row in found.rows if row.kind != "baseline"]


def _of_row(record: Record, found: Analysis, row: Row) -> Effect:
    verdict = row.verdict
    shown = verdict.comparison if verdict else None
    return Effect(
        treatment=row.treatment,
        label=row.label,
        kind=row.kind,
        verdict=verdict.kind if verdict else "invalid",
        effect=shown.effect if shown else None,
        interval=shown.ci95 if shown else None,
        level=shown.level if shown else found.level,
        blocks=shown.blocks if shown else 0,
        reason=None if verdict and verdict.kind != "invalid" else (verdict and verdict.reason) or "it has no values",
        passed=row.passed,
        asked=_asked(record, found, row.treatment, shown.baseline if shown else found.baseline),
    )


def _asked(record: Record, found: Analysis, treatment: str, against: str) -> dict[str, str]:
    """Return the parts of the question that one comparison answers."""
    study = record.study
    declared = study.model_dump(mode="json", include={"workload", "roles"})
    return {
        "metric": study.metric if study.metric in METRICS else found.metric,
        "margin": f"{found.margin:g}",
        "what it is compared with": against,
        "what sets it apart": _digest(contrast(study, treatment, against)),
        "the load": _digest(declared["workload"]),
        "the set-up of the roles": _digest(declared["roles"]),
    }
