"""From what was read of every trial to the five tables: the gates on the run as a whole, and the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from loadbook.design.plan import Plan
from loadbook.gates.base import Hit
from loadbook.gates.run import check_run
from loadbook.records.layout import RunPaths
from loadbook.records.manifest import TrialRecord
from loadbook.records.schema import arrow_schema, table_of, write_arrow
from loadbook.trials.added_rows import AddedFiles
from loadbook.trials.ingest_rows import causes, problem_rows, trial_row
from loadbook.trials.reading import OWN_TABLES, Known

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MEASURED = ["trial", "driver", "metric", "statistic", "value"]
RATES = ["trial", "driver", "series", "metric", "x", "value"]


class Piece(NamedTuple):
    """The rows of one trial in one table."""

    trial: str
    table: str
    rows: pa.Table


def pieces_of(tables: Mapping[str, pa.Table]) -> Iterator[Piece]:
    """Cut tables in which each trial's rows stand together into a piece per trial; nothing is copied."""
    import pyarrow.compute as pc

    for name, table in tables.items():
        runs = pc.run_end_encode(table["trial"].combine_chunks())
        start = 0
        for trial, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield Piece(trial, name, table.slice(start, end - start))
            start = end


def joined(pieces: Sequence[Piece]) -> dict[str, pa.Table]:
    """Put each table together from its pieces, in the order of the trials' names."""
    import pyarrow as pa

    tables = {name: [arrow_schema(name).empty_table()] for name in OWN_TABLES}
    for piece in sorted(pieces, key=attrgetter("trial")):
        tables[piece.table].append(piece.rows)
    return {name: pa.concat_tables(parts) for name, parts in tables.items()}


def write_tables(
    paths: RunPaths,
    plan: Plan,
    known: Mapping[str, Known],
    tables: Mapping[str, pa.Table],
    strays: Sequence[str],
    facts: Mapping[str, Any],
    files: AddedFiles,
    changed: Sequence[str] = (),
) -> dict[str, Any]:
    """Apply the gates on the whole run, write all five tables, and return their summary (see `ingest.Ingested`)."""
    records = _records(plan, known)
    hits = _hits(plan, records, known, tables, facts)
    by_trial: dict[str | None, list[Hit]] = {}
    for hit in hits:
        by_trial.setdefault(hit.trial, []).append(hit)
    trials = [trial_row(plan, r, known[r.trial].problems, by_trial.get(r.trial, [])) for r in records]
    keys = {"study": plan.study.name, "run": paths.raw.name}
    problems = problem_rows(plan, keys, known, hits, strays, [*files.problems(records), *map(_changed, changed)])
    factors = tuple(plan.study.factors)
    made = {"trials": table_of("trials", trials, factors), "problems": table_of("problems", problems)}
    for name, table in (made | dict(tables)).items():
        write_arrow(paths.table(name), table)
    return {
        "planned": len(plan.trials),
        "trials": len(trials),
        "valid": sum(row["valid"] for row in trials),
        "problems": dict(sorted(Counter(row["level"] for row in problems).items())),
        "causes": causes(trials, problems),
    }


def _changed(name: str) -> dict[str, Any]:
    """Return the row of a file of the run as a whole that is not as it was kept."""
    said = f"{name} is missing or no longer as it was kept when the run ended; loadbook verify names all that changed"
    return {"file": name, "name": "changed-file", "level": "doubt", "message": said}


def _records(plan: Plan, known: Mapping[str, Known]) -> list[TrialRecord]:
    """Return the records that can be used, in the order of the plan."""
    texts = [known[planned.trial].record for planned in plan.trials if planned.trial in known]
    return [TrialRecord.model_validate_json(text) for text in texts if text is not None]


def _hits(
    plan: Plan,
    records: Sequence[TrialRecord],
    known: Mapping[str, Known],
    tables: Mapping[str, pa.Table],
    facts: Mapping[str, Any],
) -> list[Hit]:
    """Return the hits of every gate, on single trials (they are known) and on the run."""
    hits = [Hit(**hit) for record in records for hit in known[record.trial].hits]
    excluded = {hit.trial for hit in hits if hit.trial and hit.level == "invalid"}
    measurements, rates = tables["measurements"].select(MEASURED).to_pylist(), _rates(tables["samples"])
    return hits + check_run(plan.study, records, measurements, excluded, facts, rates)


def _rates(samples: pa.Table) -> pd.DataFrame:
    """Return the rates per second; the histograms beside them may hold a thousand times as many rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from loadbook.stats.hygiene.within import KINDS

    return samples.filter(pc.is_in(samples["series"], pa.array(list(KINDS)))).select(RATES).to_pandas()
