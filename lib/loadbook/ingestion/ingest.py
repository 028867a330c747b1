"""Makes the five tables of a run in data/processed from its data/raw; repeated ingests give identical bytes.

Conditions are read only from trial.json, never from names of folders. Every planned trial has a row, or a problem that
explains why not. Folders are read in parts, by worker processes for large runs (`workers`), and only if they are new or
changed (`cache`). Validity rules are applied to every trial and to the run as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from loadbook.core.errors import DataError, LoadbookError
from loadbook.core.units import first_lines, pluralize
from loadbook.core.validity_rules import exclusion_cause, rule_title, status_cause
from loadbook.ingestion.cache import TrialFolder, find_trial_folders, load_cache, raw_state, save_cache
from loadbook.ingestion.host_metrics import AddedFiles
from loadbook.ingestion.trial_rows import Row
from loadbook.ingestion.workers import (
    TRIAL_TABLES,
    IngestedTrial,
    IngestPart,
    code_version,
    map_unordered,
    read_part,
    sorted_rows,
    usable_cpus,
    worker_processes,
)
from loadbook.modes.base import mode_of_record
from loadbook.services.check import ineffective_settings
from loadbook.services.spec import load_service
from loadbook.store.ledger import read_added_files, read_current_plan
from loadbook.store.paths import RunPaths
from loadbook.store.tables import TABLES, arrow_schema, to_arrow, write_arrow
from loadbook.store.trial_record import TrialRecord, read_json
from loadbook.store.verify import attempt_checksums, changed_run_files, missing_ledger_lines
from loadbook.study.plan import Plan, PlannedTrial
from loadbook.validity.base import RuleHit
from loadbook.validity.rules import MEASURED_STATUSES, check_run

if TYPE_CHECKING:
    import pyarrow as pa

# raw bytes per part; below the second number, reading takes less time than starting worker processes
PART_BYTES, MIN_PARALLEL_BYTES = 4_000_000, 12_000_000
# columns of the trials table with the same names as fields of the record
RECORD_COLUMNS = (
    *("study", "run", "trial", "treatment", "block", "slot", "status", "attempt", "started", "duration_s"),
    *("tool", "tool_version", "reason"),
)


@dataclass(frozen=True)
class RawRun:
    """Inputs of an ingest other than the content of trial folders.

    `unplanned` lists names in trials/ that belong to no planned trial, `changed` files that changed since the run
    ended; `facts` maps the name of a file without its suffix (``web-before``, ``web-after``) to the facts in it.
    `folders` maps a trial to its folder, `sums` trial -> attempt -> sha256 of the record.
    """

    paths: RunPaths
    plan: Plan
    folders: dict[str, TrialFolder]
    unplanned: list[str]
    changed: list[str]
    facts: dict[str, Any]
    added: AddedFiles
    sums: Mapping[str, Mapping[int, str]]

    @classmethod
    def read(cls, paths: RunPaths) -> RawRun:
        """Read plan, facts and ledger; DataError if the plan cannot be read or was changed."""
        plan = read_current_plan(paths)
        folders, unplanned = find_trial_folders(paths, [planned.trial for planned in plan.trials])
        changed = changed_run_files(paths)
        if paths.plan_json.name in changed:
            hint = "restore it from a backup; loadbook verify names all that changed"
            raise DataError(f"{paths.plan_json} is not as it was kept when the run ended: it was not used", hint)
        facts: dict[str, Any] = {}
        for path in sorted(paths.facts.glob("*.json")):
            with suppress(DataError):  # unreadable files are left out, like changed ones
                if path.relative_to(paths.raw).as_posix() not in changed:
                    facts[path.stem] = read_json(path)
        added = AddedFiles(paths.raw.absolute(), tuple(read_added_files(paths)))
        return cls(paths, plan, folders, unplanned, changed, facts, added, attempt_checksums(paths))

    @property
    def keys(self) -> dict[str, str]:
        """Return the columns that have the same value in every row: `study` and `run`."""
        return {"study": self.plan.study.name, "run": self.paths.raw.name}

    def changed_file_rows(self) -> Iterator[Row]:
        """Yield the problems of changed files, and of a ledger whose last lines are missing."""
        as_kept = "is missing or no longer as it was kept when the run ended"
        messages = [(name, f"{name} {as_kept}; loadbook verify names all that changed") for name in self.changed]
        if reason := missing_ledger_lines(self.paths):
            ledger = self.paths.ledger.name
            text = f"{ledger} {reason}: lines are missing at its end; loadbook verify names what it lacks"
            messages.append((ledger, text))
        for name, message in messages:
            yield {"file": name, "name": "changed-file", "level": "doubt", "message": message}

    def parts(self, new: Mapping[str, TrialFolder]) -> Iterator[IngestPart]:
        """Yield the trials that are keys of `new` in parts of about 4 MB of files, at least one trial per part."""
        part: list[tuple[PlannedTrial, Path]] = []
        size = 0
        for planned in self.plan.trials:
            if planned.trial in new:
                part.append((planned, new[planned.trial].folder.absolute()))
                size += new[planned.trial].size
            if part and (size >= PART_BYTES or planned is self.plan.trials[-1]):
                yield IngestPart(
                    **self.keys,
                    thresholds=self.plan.study.validity,
                    trials=tuple(part),
                    code=code_version(),
                    requests=self.paths.request_logs,
                    added=self.added,
                    record_sums={own.trial: self.sums[own.trial] for own, _ in part if own.trial in self.sums},
                )
                part, size = [], 0


def trial_row(plan: Plan, record: TrialRecord, problems: Sequence[Row], hits: Sequence[RuleHit]) -> Row:
    """Return the row of a trial in the trials table: its conditions, its status, and whether it is valid.

    `problems` and `hits` are those of this trial. It is valid if its status is "ok" and none has the level "invalid".
    """
    response, workload = record.response_before, record.workload
    mode = mode_of_record(record)
    named = [(hit.name, hit.level) for hit in hits] + [(p["name"], p["level"]) for p in problems]
    lives = [s.live for s in record.services]
    row = {name: value for name, value in record if name in RECORD_COLUMNS}
    row |= {f"factor_{name}": record.factors.get(name) for name in plan.study.factors}
    return row | {
        "execution": plan.execution_of(record.block),
        "measures": plan.mode.measures(plan, record.block),
        "load_model": workload["model"],
        "offered_per_s": mode.offered_per_s(record) if mode.has_given_rate(record) else None,
        "concurrency": workload.get("connections") if workload["model"] == "closed" else None,
        "drivers": len(record.drivers),
        "valid": record.status == "ok" and not any(level == "invalid" for _, level in named),
        "gates": sorted({name for name, level in named if level in ("invalid", "doubt")}),
        "response_status": response.status if response else None,
        "response_bytes": response.bytes if response else None,
        "response_sha256": response.sha256 if response else None,
        "config_live": None if not lives or None in lives else all(lives),
    }


def problem_rows(
    raw: RawRun, ingested: Mapping[str, IngestedTrial], records: Sequence[TrialRecord], hits: Iterable[RuleHit]
) -> list[Row]:
    """Return the rows of the problems table: unreadable or changed files, rule hits, missing and unplanned trials.

    `ingested` maps a trial to its results; `records` are those of the readable trials, `hits` those of the whole run.
    """
    rows: list[Row] = [{"trial": trial} | problem for trial, read in ingested.items() for problem in read.problems]
    rows += [
        {"trial": hit.trial, "host": hit.host, "name": hit.name, "level": hit.level, "message": hit.message}
        for hit in hits
    ]
    missing: Row = {"name": "not-executed", "level": "note", "message": "planned, not executed"}
    rows += [missing | {"trial": planned.trial} for planned in raw.plan.trials if planned.trial not in ingested]
    for name in raw.unplanned:
        message = f"trials/{name} is no trial of the plan; not used"
        rows.append({"file": name, "name": "not-planned", "level": "note", "message": message})
    rows += [*raw.added.problems(records), *raw.changed_file_rows()]
    blank = dict.fromkeys(TABLES["problems"]) | raw.keys
    return sorted_rows([blank | row for row in rows], "problems", [name for name in blank if name not in raw.keys])


def invalid_causes(trials: Sequence[Row], problems: Sequence[Row]) -> list[tuple[str, int]]:
    """Return (cause, number of trials) of invalid trials, most frequent first: validity rules, or else the status.

    `trials` and `problems` are rows of these two tables.
    """
    named: dict[str, set[str]] = {}
    for problem in problems:
        if problem["level"] == "invalid" and problem["trial"]:
            text = exclusion_cause(problem["name"], problem["message"]).text
            named.setdefault(problem["trial"], set()).add(text)
    return Counter(
        ", ".join(sorted(named[t["trial"]]))
        if t["status"] == "ok" or (t["status"] in MEASURED_STATUSES and t["trial"] in named)
        else f"{status_cause(t['status']).text}, {str(t['reason']).replace(t['trial'], '...')}"
        for t in trials
        if not t["valid"]
    ).most_common()


MEASUREMENT_COLUMNS = ["trial", "driver", "metric", "statistic", "value"]
RATE_COLUMNS = ["trial", "driver", "series", "metric", "x", "value"]


class TrialTable(NamedTuple):
    """Rows of one trial in one table."""

    trial: str
    table: str
    rows: pa.Table


def split_by_trial(tables: Mapping[str, pa.Table]) -> Iterator[TrialTable]:
    """Split tables (name -> table) into one slice per trial, without copying; rows of a trial must be consecutive."""
    import pyarrow.compute as pc

    for name, table in tables.items():
        runs = pc.run_end_encode(table["trial"].combine_chunks())
        start = 0
        for trial, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            yield TrialTable(trial, name, table.slice(start, end - start))
            start = end


def concat_by_table(pieces: Sequence[TrialTable]) -> dict[str, pa.Table]:
    """Return table name -> its slices joined in the order of trial names; a table without slices is empty."""
    import pyarrow as pa

    tables = {name: [arrow_schema(name).empty_table()] for name in TRIAL_TABLES}
    for piece in sorted(pieces, key=attrgetter("trial")):
        tables[piece.table].append(piece.rows)
    return {name: pa.concat_tables(parts) for name, parts in tables.items()}


def write_tables(raw: RawRun, ingested: Mapping[str, IngestedTrial], tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Apply the rules on the whole run, write all five tables, and return the summary as a dictionary.

    Its keys are the fields of `IngestSummary` except `read`. `tables` are the three tables read from the trials:
    measurements, samples and traces.
    """
    plan = raw.plan
    read = [ingested[planned.trial] for planned in plan.trials if planned.trial in ingested]
    records = [TrialRecord.model_validate_json(trial.record) for trial in read if trial.record is not None]
    hits = _validity_hits(raw, records, ingested, tables)
    by_trial: dict[str | None, list[RuleHit]] = {}
    for hit in hits:
        by_trial.setdefault(hit.trial, []).append(hit)
    trials = [trial_row(plan, r, ingested[r.trial].problems, by_trial.get(r.trial, [])) for r in records]
    problems = problem_rows(raw, ingested, records, hits)
    factors = tuple(plan.study.factors)
    finished = {"trials": to_arrow("trials", trials, factors), "problems": to_arrow("problems", problems)}
    for name, table in (finished | dict(tables)).items():
        write_arrow(raw.paths.table(name), table)
    return {
        "planned": len(plan.trials),
        "trials": len(trials),
        "valid": sum(row["valid"] for row in trials),
        "problems": dict(sorted(Counter(row["level"] for row in problems).items())),
        "problem_trials": _problem_trials(problems),
        "causes": invalid_causes(trials, problems),
    }


def _problem_trials(problems: Iterable[Row]) -> dict[str, list[tuple[str, int]]]:
    """Return level -> (name of a problem, number of its trials), most frequent first."""
    trials: dict[tuple[str, str], set[str]] = {}
    for row in problems:
        trials.setdefault((row["level"], row["name"]), set()).update([row["trial"]] if row["trial"] else [])
    counts = sorted(((level, name, len(ids)) for (level, name), ids in trials.items()), key=lambda c: (-c[2], c[1]))
    return {level: [(name, n) for at, name, n in counts if at == level] for level in sorted({c[0] for c in counts})}


def _validity_hits(
    raw: RawRun,
    records: Sequence[TrialRecord],
    ingested: Mapping[str, IngestedTrial],
    tables: Mapping[str, pa.Table],
) -> list[RuleHit]:
    """Return the hits of all validity rules, on single trials (already known) and on the run."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from loadbook.stats.steady_state import RATE_SERIES_KINDS

    hits = [RuleHit(**hit) for record in records for hit in ingested[record.trial].hits]
    excluded = {hit.trial for hit in hits if hit.trial and hit.level == "invalid"}
    measurements = tables["measurements"].select(MEASUREMENT_COLUMNS).to_pylist()
    # only rates per second, as histograms may have a thousand times as many rows
    samples, kinds = tables["samples"], pa.array(list(RATE_SERIES_KINDS))
    rates = samples.filter(pc.is_in(samples["series"], kinds)).select(RATE_COLUMNS).to_pandas()
    # the project is the folder above data/processed/STUDY/RUN
    parents = raw.paths.processed.absolute().parents
    folders = [parents[3] / "studies" / "services"] if len(parents) > 3 else []
    changes = _declared_changes(raw.plan, folders)
    ineffective: dict[str, list[str]] = {}
    with suppress(LoadbookError):  # a service that no longer exists
        ineffective = ineffective_settings(raw.plan.study, folders)
    return hits + check_run(raw.plan.study, records, measurements, excluded, raw.facts, rates, changes, ineffective)


def _declared_changes(plan: Plan, folders: Sequence[Path]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return (service, variable) -> effects that service.toml declares for the variable."""
    roles = {factor.role for factor in plan.study.factors.values() if factor.of == "vars"}
    services = {plan.study.setting(name, role).service for name in plan.treatments for role in roles}
    changes: dict[tuple[str, str], tuple[str, ...]] = {}
    for service in sorted(filter(None, services)):
        with suppress(LoadbookError):  # services that no longer exist declare nothing
            variables = load_service(service, folders).vars
            changes |= {(service, name): variable.changes for name, variable in variables.items() if variable.changes}
    return changes


MAX_NAMED_CHECKS = 4


@dataclass(frozen=True)
class IngestSummary:
    """Result of an ingest: numbers of planned, recorded and valid trials, problems by level, and causes.

    `causes` counts the causes of invalid trials (rules, or else status), most frequent first; `problem_trials` maps
    each level (invalid, doubt, note, unchecked) to names of problems with numbers of trials, and `problems` maps it
    to the number of its rows. `read` is the number of trials whose folders were read now.
    """

    planned: int
    trials: int
    valid: int
    problems: dict[str, int]
    causes: list[tuple[str, int]]
    problem_trials: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    read: int = 0

    @property
    def problems_text(self) -> str:
        """Return a text with the checks that raised a doubt, and those that could not be made.

        Without any, it is "no check raised a doubt".
        """
        parts = []
        for level, prefix in (("doubt", "doubtful, but counted"), ("unchecked", "not checked")):
            checks = self.problem_trials.get(level, [])
            named = [rule_title(name) + (f" ({pluralize(count, 'trial')})" if count else "") for name, count in checks]
            parts += [f"{prefix}: {', '.join(first_lines(named, MAX_NAMED_CHECKS))}"] if checks else []
        return "; ".join(parts) or "no check raised a doubt"


def ingest(
    paths: RunPaths,
    executor: Executor | None = None,
    on_trial: Callable[[int, int], None] = lambda done, total: None,
    on_note: Callable[[str], None] = lambda text: None,
) -> IngestSummary:
    """Make the five tables of one run; unchanged trials are not read again.

    Parameters
    ----------
    executor : runs the reading of trials; default: own worker processes for large runs, else this process.
    on_trial : called with the number of trials that are done (read now or unchanged) and the number of all.
    on_note : called with other messages for the user.

    Raises
    ------
    DataError : the plan cannot be read, or rows do not fit the declared schema.
    """
    raw = RawRun.read(paths)
    folders = raw.folders
    more = [raw.unplanned, raw.facts, raw.changed, len(raw.plan.trials), missing_ledger_lines(paths)]
    state, cache = raw_state(paths, folders, more), load_cache(paths)
    if cache and cache.state == state != "":
        return _to_summary(cache.summary, read=0)

    ingested = cache.unchanged_trials(folders) if cache else {}
    pieces = [p for p in split_by_trial(cache.tables()) if p.trial in ingested] if cache else []
    new = {trial: folder for trial, folder in folders.items() if trial not in ingested}
    for table in paths.request_logs.iterdir() if paths.request_logs.is_dir() else ():
        if table.stem not in ingested:  # read now, or of a trial that no longer exists
            table.unlink()
    on_trial(len(ingested), len(folders))
    size = sum(folder.size for folder in new.values())
    needs_none = executor is not None or usable_cpus() == 1 or size < MIN_PARALLEL_BYTES
    with nullcontext(executor) if needs_none else worker_processes() as workers:
        for rows in map_unordered(read_part, list(raw.parts(new)), workers, on_note):
            ingested |= rows.trials
            pieces += split_by_trial(rows.tables)
            on_trial(len(ingested), len(folders))
    summary = write_tables(raw, ingested, concat_by_table(pieces))
    save_cache(paths, state, summary, folders, ingested)
    return _to_summary(summary, read=len(new))


def _to_summary(summary: Mapping[str, Any], read: int) -> IngestSummary:
    causes = [(why, count) for why, count in summary["causes"]]
    named = {level: [(name, n) for name, n in checks] for level, checks in summary["problem_trials"].items()}
    return IngestSummary(**{**summary, "causes": causes, "problem_trials": named, "read": read})
