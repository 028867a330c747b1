"""From what was read of every trial to the five tables: the gates on the run as a whole, and the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from loadbook.design.plan import Plan
from loadbook.gates.base import RuleHit
from loadbook.gates.run import check_run
from loadbook.records.layout import RunPaths
from loadbook.records.manifest import TrialRecord
from loadbook.records.schema import arrow_schema, to_arrow, write_arrow
from loadbook.trials.added_rows import AddedFiles
from loadbook.trials.ingest_rows import invalid_causes, problem_rows, trial_row
from loadbook.trials.reading import TRIAL_TABLES, IngestedTrial

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MEASUREMENT_COLUMNS = ["trial", "driver", "metric", "statistic", "value"]
RATE_COLUMNS = ["trial", "driver", "series", "metric", "x", "value"]


class TrialTable(NamedTuple):
    """The rows of one trial in one table."""

    trial: str
    table: str
    rows: pa.Table


def split_by_trial(tables: Mapping[str, pa.Table]) -> Iterator[TrialTable]:
    """Cut tables in which each trial's rows stand together into a piece per trial; nothing is copied."""
    import pyarrow.compute as pc

    for name, table in tables.items():
        runs = pc.run_end_encode(table["trial"].combine_chunks())
        start = 0
        for trial, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield TrialTable(trial, name, table.slice(start, end - start))
            start = end


def concat_by_table(pieces: Sequence[TrialTable]) -> dict[str, pa.Table]:
    """Put each table together from its pieces, in the order of the trials' names."""
    import pyarrow as pa

    tables = {name: [arrow_schema(name).empty_table()] for name in TRIAL_TABLES}
    for piece in sorted(pieces, key=attrgetter("trial")):
        tables[piece.table].append(piece.rows)
    return {name: pa.concat_tables(parts) for name, parts in tables.items()}


def write_tables(
    paths: RunPaths,
    plan: Plan,
    ingested: Mapping[str, IngestedTrial],
    tables: Mapping[str, pa.Table],
    unplanned: Sequence[str],
    facts: Mapping[str, Any],
    files: AddedFiles,
    changed: Sequence[str] = (),
) -> dict[str, Any]:
    """Apply the gates on the whole run, write all five tables, and return their summary (see `ingest.IngestSummary`)."""
    records = _usable_records(plan, ingested)
    hits = _validity_hits(plan, records, ingested, tables, facts)
    by_trial: dict[str | None, list[RuleHit]] = {}
    for hit in hits:
        by_trial.setdefault(hit.trial, []).append(hit)
    trials = [trial_row(plan, r, ingested[r.trial].problems, by_trial.get(r.trial, [])) for r in records]
    keys = {"study": plan.study.name, "run": paths.raw.name}
    problems = problem_rows(plan, keys, ingested, hits, unplanned, [*files.problems(records), *map(_changed_file_row, changed)])
    factors = tuple(plan.study.factors)
    finished = {"trials": to_arrow("trials", trials, factors), "problems": to_arrow("problems", problems)}
    for name, table in (finished | dict(tables)).items():
        write_arrow(paths.table(name), table)
    return {
        "planned": len(plan.trials),
        "trials": len(trials),
        "valid": sum(row["valid"] for row in trials),
        "problems": dict(sorted(Counter(row["level"] for row in problems).items())),
        "causes": invalid_causes(trials, problems),
    }


def _changed_file_row(name: str) -> dict[str, Any]:
    """Return the row of a file of the run as a whole that is not as it was kept."""
    message = f"{name} is missing or no longer as it was kept when the run ended; loadbook verify names all that changed"
    return {"file": name, "name": "changed-file", "level": "doubt", "message": message}


def _usable_records(plan: Plan, ingested: Mapping[str, IngestedTrial]) -> list[TrialRecord]:
    """Return the records that can be used, in the order of the plan."""
    texts = [ingested[planned.trial].record for planned in plan.trials if planned.trial in ingested]
    return [TrialRecord.model_validate_json(text) for text in texts if text is not None]


def _validity_hits(
    plan: Plan,
    records: Sequence[TrialRecord],
    ingested: Mapping[str, IngestedTrial],
    tables: Mapping[str, pa.Table],
    facts: Mapping[str, Any],
) -> list[RuleHit]:
    """Return the hits of every gate, on single trials (they are known) and on the run."""
    hits = [RuleHit(**hit) for record in records for hit in ingested[record.trial].hits]
    excluded = {hit.trial for hit in hits if hit.trial and hit.level == "invalid"}
    measurements, rates = tables["measurements"].select(MEASUREMENT_COLUMNS).to_pylist(), _rate_samples(tables["samples"])
    return hits + check_run(plan.study, records, measurements, excluded, facts, rates)


def _rate_samples(samples: pa.Table) -> pd.DataFrame:
    """Return the rates per second; the histograms beside them may hold a thousand times as many rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from loadbook.stats.hygiene.within import RATE_SERIES_KINDS

    return samples.filter(pc.is_in(samples["series"], pa.array(list(RATE_SERIES_KINDS)))).select(RATE_COLUMNS).to_pandas()
