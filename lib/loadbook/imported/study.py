"""Import of results measured without loadbook: the study made from them, its checks, and the run on disk.

Everything is checked before anything is written: `read_import` lists all mistakes at once, and `write_import` creates
the complete run by one rename, or nothing.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from loadbook.core import clock
from loadbook.core.errors import DataError, StudyError, UsageError
from loadbook.core.metrics import get_metric
from loadbook.core.units import and_more, pluralize
from loadbook.execution.select import new_run_id
from loadbook.imported import earlier, outputs
from loadbook.imported.outputs import Condition, ImportProblem
from loadbook.imported.reports import ToolReport, read_reports, with_times_of_outputs
from loadbook.ingestion.captured import find_argv
from loadbook.stats.compare import MIN_BLOCKS
from loadbook.store import trial_record
from loadbook.store.atomic import hold_study_lock, move_folder
from loadbook.store.ledger import Ledger
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.run_record import ImportSource, RecordedHost, RunRecord, write_run_record
from loadbook.store.trial_record import (
    SCHEMA_VERSION,
)
from loadbook.store.verify import run_file_checksums
from loadbook.study.model import Study
from loadbook.study.plan import Plan, PlannedTrial, study_sha256
from loadbook.study.problems import suggestion
from loadbook.study.reader import read_study
from loadbook.tools import base

# target address in the generated study, which needs one; nothing is ever sent there
NOT_RECORDED = "not-recorded:1"
DEFAULT_BASELINE, DEFAULT_METRIC = "baseline", "ok_per_s"
# limits of every study (study.model)
MAX_BLOCKS = 1000
FACTOR_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}\Z")
DEFAULT_DRIVER = "driver"
CONDITIONS_FILE = "conditions.csv"
PlannedOutput = tuple[PlannedTrial, ToolReport]
OnFile = Callable[[int, int], None]
MAX_NOTES = 5


@dataclass(frozen=True)
class ImportOptions:
    """Options of `loadbook import`; None: the default. `aa` is the A/A arm, `margin` a share (0.02 for 2 %)."""

    name: str
    baseline: str | None = None
    metric: str | None = None
    margin: float | None = None
    question: str | None = None
    incomplete: bool = False
    aa: str | None = None


def to_valid_name(text: str) -> str:
    """Return a text as a name of at most 63 letters, digits, '.', '_' and '-'; "" if none of these occur in it."""
    return re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._-]+", "-", text)).strip("-._")[:63]


def unique_names(texts: Sequence[str]) -> dict[str, str]:
    """Return {text: a unique valid name made from it}, in the given order."""
    names: dict[str, str] = {}
    for text in texts:
        stem = name = to_valid_name(text) or "treatment"
        number = 1
        while name in names.values():
            number += 1
            name = f"{stem[:58]}-{number}"
        names[text] = name
    return names


def block_numbers(reports: Sequence[ToolReport]) -> dict[str, int]:
    """Return {block as given: number}: its own if all are distinct integers from 1 to 1000, else 1, 2, ... by row."""
    texts = list(dict.fromkeys(r.condition.block for r in reports))
    whole = [text for text in texts if text.isascii() and text.isdecimal() and len(text) < 10]
    numbers = {text: int(text) for text in whole if 0 < int(text) <= MAX_BLOCKS}
    if len(numbers) == len(texts) == len(set(numbers.values())):
        return numbers
    return {text: number for number, text in enumerate(texts, 1)}


def condition_problems(
    options: ImportOptions, conditions: Sequence[Condition], *, whole: bool
) -> Iterator[ImportProblem]:
    """Yield mistakes in treatments, blocks and factors; `whole` is False if `conditions` lacks rows with mistakes."""
    treatments = list(dict.fromkeys(c.treatment for c in conditions))
    if len(treatments) == 1 and whole:
        yield ImportProblem(0, f"there is only the treatment {treatments[0]!r}, nothing to compare it with")
    baseline, aa_arm = find_treatment(options.baseline or DEFAULT_BASELINE, treatments), None
    if baseline is None and treatments:
        which = "no baseline was given" if options.baseline is None else f"no treatment {options.baseline!r}"
        text = f"{which}; say by --baseline which one the others are compared with: {', '.join(treatments)}"
        yield ImportProblem(0, text)
    if options.aa is not None:
        aa_arm = find_treatment(options.aa, treatments)
        if aa_arm in (None, baseline):
            yield ImportProblem(0, f"--aa {options.aa!r} is no treatment beside the baseline: {', '.join(treatments)}")
    first = {c.treatment: c for c in reversed(conditions)}
    if aa_arm is not None and baseline is not None and first[aa_arm].factors != first[baseline].factors:
        text = f"{aa_arm!r} has other factors than {baseline!r}, so it is not the baseline once more (--aa)"
        yield ImportProblem(first[aa_arm].line, text)
    yield from _block_problems(conditions, treatments if whole and not options.incomplete else [])
    yield from _factor_problems(conditions)


def report_problems(options: ImportOptions, reports: Sequence[ToolReport]) -> Iterator[ImportProblem]:
    """Yield a mistake if no report has the study's metric, and for each open load of unknown rate."""
    measured = frozenset[str]().union(*(r.metrics for r in reports))
    metric = options.metric or DEFAULT_METRIC
    if measured and metric not in measured:
        text = f"no report has the metric {metric}{suggestion(metric, sorted(measured))}; choose one by --metric"
        yield ImportProblem(0, text)
    for report in reports:
        if report.is_open and report.offered_per_s is None:
            text = f"{report.condition.file} does not say at which rate {report.tool} sent requests"
            yield ImportProblem(report.condition.line, f"{text}: add a column 'command' or 'offered_per_s'")


def find_treatment(wanted: str, treatments: Sequence[str]) -> str | None:
    """Return the treatment, as written in the CSV file, whose text is `wanted`; None if there is none.

    The name that a study file gives it (of letters, digits and hyphens) is accepted, too.
    """
    return next((text for text, name in unique_names(treatments).items() if wanted in (text, name)), None)


def _block_problems(conditions: Sequence[Condition], treatments: Sequence[str]) -> Iterator[ImportProblem]:
    lines_by_block: dict[str, dict[str, int]] = {}
    for condition in conditions:
        lines = lines_by_block.setdefault(condition.block, {})
        if lines.setdefault(condition.treatment, condition.line) != condition.line:
            text = f"a second row of treatment {condition.treatment!r} in block {condition.block!r}, after line"
            text += f" {lines[condition.treatment]}: one trial has one output; {_joining(condition.file)}"
            yield ImportProblem(condition.line, f"{text}; a repetition has a block of its own")
    for block, lines in lines_by_block.items():
        missing = [name for name in treatments if name not in lines]
        if missing:
            text = f"block {block!r} has no row of {', '.join(missing)}"
            yield ImportProblem(min(lines.values()), f"{text}: if these were not measured, say --incomplete")
    if len(lines_by_block) > MAX_BLOCKS:
        yield ImportProblem(0, f"{len(lines_by_block):,} blocks: a study has at most {MAX_BLOCKS:,}")


def _joining(file: str) -> str:
    """Return what to do with outputs of generators that made the load of one trial together."""
    if file.lower().endswith((".jtl", ".csv")):
        return "join those of several generators below one header, or let JMeter's controller write one"
    return "add up the rates of several generators, and compare them in a CSV (loadbook compare)"


def _factor_problems(conditions: Sequence[Condition]) -> Iterator[ImportProblem]:
    levels: dict[tuple[str, str], tuple[str, int]] = {}
    for condition in conditions:
        for factor, level in condition.factors.items():
            if not FACTOR_NAME.match(factor):
                yield ImportProblem(0, f"factor {factor!r}: use small letters, digits and '_', a letter first")
            if not level:
                yield ImportProblem(condition.line, f"no level of {factor}")
            first, line = levels.setdefault((condition.treatment, factor), (level, condition.line))
            if first != level:
                text = f"{condition.treatment!r} has {factor} = {level!r}, in line {line} it has {first!r}"
                yield ImportProblem(condition.line, f"{text}: a treatment is one combination of levels")


def study_text(options: ImportOptions, reports: Sequence[ToolReport]) -> str:
    """Return the text of the study file for reports that were checked."""
    names = unique_names(list(dict.fromkeys(r.condition.treatment for r in reports)))
    baseline = find_treatment(options.baseline or DEFAULT_BASELINE, list(names)) or ""
    aa_arm = find_treatment(options.aa, list(names)) if options.aa else None
    metric = get_metric(options.metric or DEFAULT_METRIC)
    varied = _varied_factors(reports)
    verb = "is better than" if metric.better else "differs from"
    question = options.question or f"Which treatment {verb} {baseline[:60]}?"
    of_treatment = {text: [r for r in reports if r.condition.treatment == text] for text in names}
    loads: dict[str, dict[str, Any]] = {}
    for text, same in of_treatment.items():
        rates = [r.offered_per_s for r in same if r.offered_per_s is not None]
        load = {"model": "open", "rate_per_s": median(rates)} if rates else {"model": "closed"}
        loads[text] = {"tool": same[0].tool} | load
    lines = [
        "# made by loadbook import from a file of conditions; nothing in it was measured or checked by loadbook",
        "schema = 1",
        _toml_line("name", options.name),
        _toml_line("question", question),
        _toml_line("metric", metric.name),
        _toml_line("baseline", names[baseline]),
        _toml_line("margin", options.margin or metric.margin),
        _toml_line("blocks", len(block_numbers(reports))),
        "\n[roles.driver]",
        "\n[roles.web]",
        _toml_line("external", NOT_RECORDED),
        "\n[workload]",
        *(_toml_line(key, value) for key, value in loads[baseline].items()),
    ]
    for factor, levels in varied.items():
        lines += [f"\n[factors.{factor}]", _toml_line("levels", levels)]
    for text, name in names.items():
        factors = of_treatment[text][0].condition.factors
        lines += [f"\n[treatments.{json.dumps(name)}]", *([_toml_line("label", text)] if text != name else [])]
        if text == aa_arm:
            lines += [_toml_line("same_as", names[baseline]), _toml_line("check", "aa")]
            continue
        lines += [_toml_line(f"set.{factor}", factors[factor]) for factor in varied]
        other = {key: value for key, value in loads[text].items() if loads[baseline].get(key) != value}
        lines += [_toml_line(f"workload.{key}", value) for key, value in other.items()]
    return "\n".join(lines) + "\n"


def _toml_line(key: str, value: Any) -> str:
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


def _varied_factors(reports: Sequence[ToolReport]) -> dict[str, list[str]]:
    """Return {factor: its levels} for the factors that have several levels."""
    levels: dict[str, list[str]] = {}
    for report in reports:
        for factor, level in report.condition.factors.items():
            levels.setdefault(factor, []).append(level)
    return {factor: list(dict.fromkeys(values)) for factor, values in levels.items() if len(set(values)) > 1}


def import_plan(study: Study, reports: Sequence[ToolReport]) -> tuple[Plan, list[tuple[PlannedTrial, ToolReport]]]:
    """Return the plan, and the pairs of planned trial and report.

    Trials are in the order of their start times if all rows have one. Otherwise the order of execution is unknown, and
    trials are ordered by block and treatment, so that no verdict depends on the order of lines in the CSV file. Missing
    trials of incomplete blocks come last. The seed is None, since loadbook did not draw the order.
    """
    names = unique_names(list(dict.fromkeys(r.condition.treatment for r in reports)))
    blocks = block_numbers(reports)
    timed = all(r.condition.started is not None for r in reports)
    arms = list(names)
    by_block = sorted(reports, key=lambda r: (blocks[r.condition.block], arms.index(r.condition.treatment)))
    ordered = sorted(by_block, key=lambda r: r.condition.started or 0.0) if timed else by_block
    done = [(names[r.condition.treatment], blocks[r.condition.block]) for r in ordered]
    missing = [(n, b) for b in sorted(blocks.values()) for n in names.values() if (n, b) not in set(done)]
    trials = tuple(PlannedTrial(f"t{i:04d}", name, block, i) for i, (name, block) in enumerate(done + missing, 1))
    plain = study.model_copy(update={"execution": "plain"})
    plan = Plan(plain, "default", None, len(blocks), tuple(names.values()), trials)
    return plan, list(zip(trials, ordered, strict=False))


def ignore_progress(done: int, total: int) -> None:
    """Do nothing: the default for `on_file`."""


@dataclass(frozen=True)
class CheckedImport:
    """Checked outputs: the study, its plan, the pairs of planned trial and report, and notes for the user.

    `times_given`: every row of the CSV file has a start; else starts are those in the outputs, if all have them.
    """

    folder: Path
    conditions: Path
    study_text: str
    plan: Plan
    pairs: tuple[PlannedOutput, ...]
    notes: tuple[str, ...]
    times_given: bool

    @property
    def timed(self) -> bool:
        """Whether the start of every trial is known, by the CSV file or by the outputs."""
        return all(report.condition.started is not None for _, report in self.pairs)

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.plan.study.name

    @property
    def blocks_text(self) -> str:
        """Sentence with the number of complete blocks (every treatment was measured) and the number a verdict needs."""
        treatments = Counter(planned.block for planned, report in self.pairs if report.parsed)
        count = sum(n == len(self.plan.treatments) for n in treatments.values())
        text = f"{pluralize(count, 'complete block')}; a verdict needs at least {MIN_BLOCKS}"
        return text if count >= MIN_BLOCKS else f"{text}: without more the report gives no verdict"


def write_run(paths: RunPaths, checked: CheckedImport, added: int, on_file: OnFile) -> None:
    """Write a run's folder under a temporary name, then rename it; if this fails, nothing is left.

    `added` is the result of `earlier.added_blocks`; more than 0 makes the run exploratory.
    """
    part, run = paths.raw.with_name(f".{paths.raw.name}.part"), paths.raw.name
    try:
        part.mkdir(parents=True)
        new = RunPaths(part, part)
        new.study_toml.write_text(checked.study_text, encoding="utf-8")
        shutil.copyfile(checked.conditions, part / CONDITIONS_FILE)
        with Ledger(new.ledger) as ledger:
            ledger.append("run-started", trials=len(checked.plan.trials))
            for done, (planned, report) in enumerate(checked.pairs, 1):
                _write_trial(new, ledger, checked.plan, run, planned, report)
                on_file(done, len(checked.pairs))
            write_run_record(new, _run_record(run, checked))
            trial_record.write_json(new.plan_json, replace(checked.plan, added=added).to_json())
            ledger.append("run-ended", files=run_file_checksums(new))
        move_folder(part, paths.raw)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write_trial(
    paths: RunPaths, ledger: Ledger, plan: Plan, run: str, planned: PlannedTrial, report: ToolReport
) -> None:
    """Copy one output byte for byte to a trial's folder, write its record with checksums, and add it to the ledger."""
    record = _trial_record(plan, run, planned, report)
    failed_name = f"{planned.trial}-attempt1"
    folder = paths.trial(planned.trial) if record.status == "ok" else paths.failed / failed_name
    folder.mkdir(parents=True)
    for pattern, content in outputs.files_by_trial_name(report.source):
        copy = folder / pattern.format(host=record.drivers[0].host)
        if isinstance(content, bytes):
            copy.write_bytes(content)
        else:
            shutil.copyfile(content, copy, follow_symlinks=False)
    for name in (record.drivers[0].stdout, record.drivers[0].stderr):
        (folder / name).touch()  # an output that the user did not keep is empty
    trial_record.seal_trial(folder, record)
    ledger.append("started", trial=planned.trial, attempt=1)
    sealed = trial_record.sha256_file(folder / trial_record.RECORD_NAME)
    fields = {"trial": planned.trial, "attempt": 1, "status": record.status, "reason": record.reason}
    ledger.append("ended", **fields, final=True, sha256=sealed)


def _trial_record(plan: Plan, run: str, planned: PlannedTrial, report: ToolReport) -> trial_record.TrialRecord:
    """Return the record of a trial; unknown fields stay empty, so that validity rules that need them are unchecked."""
    condition, source, study = report.condition, report.source, plan.study
    host = condition.host or DEFAULT_DRIVER
    driver = trial_record.DriverRecord(
        host=host,
        argv=list(find_argv(source.command, base.load_tool(report.tool).binary)),
        rc=source.rc,
        stdout=f"stdout-{host}",
        stderr=f"stderr-{host}",
        files={name: f"{host}-{name}" for name in source.files},
        source=condition.file,
    )
    failed = driver.rc not in (0, None)
    load = {"model": "open", "rate_per_s": report.offered_per_s} if report.is_open else {"model": "closed"}
    return trial_record.TrialRecord(
        study=study.name,
        run=run,
        trial=planned.trial,
        treatment=planned.treatment,
        factors={name: str(level) for name, level in study.levels_of(planned.treatment).items()},
        block=planned.block,
        slot=planned.slot,
        attempt=1,
        status="tool_failed" if failed else "ok",
        reason=f"host {host}: {report.tool} ended with exit code {driver.rc}" if failed else None,
        started=condition.started,
        duration_s=condition.duration,
        tool=report.tool,
        workload={"tool": report.tool} | load,
        drivers=[driver],
    )


def _run_record(run: str, checked: CheckedImport) -> RunRecord:
    plan, conditions, now = checked.plan, [report.condition for _, report in checked.pairs], clock.now()
    tools: dict[str, dict[str, None]] = {}
    for _, report in checked.pairs:
        tools.setdefault(report.condition.host or DEFAULT_DRIVER, {})[report.tool] = None
    started = [(c.started, c.duration or 0.0) for c in conditions if c.started is not None]
    timed = len(started) == len(conditions)
    return RunRecord(
        study=plan.study.name,
        run=run,
        subset=plan.subset,
        schema_version=SCHEMA_VERSION,
        started=min(t for t, _ in started) if timed else now,
        ended=max(t + length for t, length in started) if timed else None,
        loadbook_version=version("loadbook"),
        git_revision=None,
        git_dirty=None,
        study_sha256=study_sha256(plan.study),
        seed=None,
        blocks=plan.blocks,
        hosts={host: RecordedHost(roles=["driver"]) for host in tools},
        tool_versions={host: ", ".join(names) for host, names in tools.items()},
        service_versions={},
        lab=False,
        replay=None,
        resumed=0,
        provenance="imported",
        imported=ImportSource(
            at=now,
            timed=timed,
            times_given=checked.times_given,
            folder=_printable(checked.folder.name),
            conditions=_printable(checked.conditions.name),
        ),
    )


def _printable(name: str) -> str:
    """Return a file's name with "?" for every character that cannot be printed."""
    return "".join(c if c.isprintable() else "?" for c in name)


def read_import(
    folder: Path, conditions: Path, options: ImportOptions, tool: str | None = None, on_file: OnFile = ignore_progress
) -> CheckedImport:
    """Read and check the outputs in `folder` that the CSV file `conditions` lists, without writing anything.

    Parameters
    ----------
    options : an empty name stands for that of the folder.
    tool : the tool of every output whose row names none; None: it is detected.
    on_file : called after each output with the number of outputs read and of all.

    Raises
    ------
    UsageError : mistakes in the CSV file, its file names or the arguments; the message lists all mistakes.
    DataError : mistakes in outputs only.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    if options.margin is not None and not 0 < options.margin < 1:
        raise UsageError(f"--margin {options.margin:g} is not between 0 and 1", "give 0.02 for 2 %")
    if options.metric is not None:
        get_metric(options.metric)
    if options.question is not None and not (3 <= len(options.question) <= 90 and options.question.isprintable()):
        raise UsageError("--question must have 3 to 90 printable characters")
    folder = folder.resolve()
    options = replace(options, name=to_valid_name(options.name or folder.name))
    if not options.name:
        raise UsageError(f"the folder's name {folder.name!r} makes no name for a study", "give one: --study NAME")
    conditions_read, problems = outputs.read_conditions(conditions)
    sources, file_problems = outputs.find_outputs(folder, conditions_read)
    reports, tool_problems = read_reports(sources, tool, on_file)
    problems += [
        *condition_problems(options, conditions_read, whole=not problems),
        *file_problems,
        *tool_problems,
        *report_problems(options, reports),
    ]
    if problems:
        raise outputs.import_error(conditions, problems)
    all_given = all(condition.started is not None for condition in conditions_read)
    reports = with_times_of_outputs(reports)
    text = study_text(options, reports)
    with tempfile.TemporaryDirectory() as scratch:  # read like any study file
        file = Path(scratch) / "study.toml"
        file.write_text(text, encoding="utf-8")
        try:
            study = read_study(file)
        except StudyError as error:
            raise StudyError(f"the study made from {conditions}", error.problems) from error
    plan, pairs = import_plan(study, reports)
    notes = tuple(_import_notes(reports))
    return CheckedImport(folder, conditions, text, plan, tuple(pairs), notes, times_given=all_given)


def _import_notes(reports: Sequence[ToolReport]) -> Iterator[str]:
    """Yield notes on factors that do not vary, what lay around reports, and outputs that have no numbers."""
    varied = _varied_factors(reports)
    if same := [factor for factor in reports[0].condition.factors if factor not in varied]:
        yield f"{', '.join(same)}: the same in every row, so no factor of the study"
    for what, count in Counter(what for r in reports for what in r.taken_off).items():
        yield f"{pluralize(count, 'output')} read without {what}"
    unread = [f"{r.condition.file}: no numbers: {r.error}" for r in reports if r.error]
    yield from unread[:MAX_NOTES]
    if more := and_more(len(unread), MAX_NOTES):
        yield f"{more} without numbers"


def write_import(layout: Layout, checked: CheckedImport, on_file: OnFile = ignore_progress) -> str:
    """Write checked outputs as a new run and return its id; `on_file(done, total)` is called after each output.

    Raises
    ------
    UsageError : the name belongs to another study, or another process writes its runs.
    DataError : a file cannot be read or written; no part of the run is left.
    """
    earlier.earlier_imports(layout, checked.name)
    try:
        with hold_study_lock(layout.study_raw(checked.name)):
            for leftover in layout.study_raw(checked.name).glob(".*.part"):
                shutil.rmtree(leftover)
            run, added = new_run_id(layout, checked.name), earlier.added_blocks(layout, checked.name, checked.pairs)
            write_run(layout.run(checked.name, run), checked, added, on_file)
    except OSError as error:
        raise DataError(f"{error.filename or layout.root}: {error.strerror or error}; nothing was imported") from error
    return run
