"""Sections of a report: the set-up of the run, and which trials are valid.

The set-up shows configuration differences first, then hosts, versions, changed facts and provenance. The sections on
trials show counts, doubts as text, the figure of validity rules, and the table of every trial; for runs with several
drivers also their start offsets and latencies per driver.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import DataError, LoadbookError
from loadbook.core.metrics import get_metric
from loadbook.core.units import (
    NBSP,
    format_bytes,
    format_duration,
    format_percent,
    format_rounded,
    pluralize,
    utc_text,
)
from loadbook.core.validity_rules import EVALUATED_RULES, lower_first, rule_advice, rule_title
from loadbook.modes.plain.page import page_of
from loadbook.report.blocks import Block, lines_list
from loadbook.report.nodes import (
    DASH,
    Column,
    Content,
    Details,
    Division,
    Group,
    HtmlOnly,
    Paragraph,
    Picture,
    Strong,
    Table,
)
from loadbook.services.check import version_defaults
from loadbook.stats import diagnostics
from loadbook.stats.exclusions import with_causes
from loadbook.store import trial_record
from loadbook.store.run_record import BOOT_ID_FACT, MACHINE_FACT
from loadbook.store.tables import RunData, trial_values

if TYPE_CHECKING:
    import pandas as pd

BEFORE_SUFFIX, AFTER_SUFFIX = "-before", "-after"
MAX_DIFF_LINES = 40
FIRST_FACTS = ("os", "kernel", "cpu_model", "cpus_online", "memory_total_b", "virtual", "cpu_governor")
PRIVATE_FACTS = (BOOT_ID_FACT, MACHINE_FACT)  # they identify a machine: left out of reports
_LIVE_PORT = re.compile(r"https?://[^/\s]*:(\d+)/")  # in the evidence that a service is live
_GENERATED_ID = re.compile(r"\b[0-9a-f]{12,}\b(?:-[0-9a-f]+)*")  # ids that differ in each trial's configuration


def started_text(data: RunData) -> str:
    """Return the UTC date and time of the start of the run as text."""
    return f"{utc_text(data.run_record.started)} UTC"


def treatment_differences(data: RunData) -> Table:
    """Return a table, one row per treatment, of the factors in which it differs from the baseline.

    "=" stands for the baseline's level. Factors with one level in all treatments are left out.
    """
    study, base = data.study, data.study.levels_of(data.study.baseline)
    levels = {name: study.levels_of(name) for name in data.plan.treatments}
    varied = [f for f in study.factors if any(row[f] != base[f] for row in levels.values())]
    rows = []
    for name, row in levels.items():
        texts = {f: ("on" if row[f] else "off") if isinstance(row[f], bool) else str(row[f]) for f in varied}
        shown = [text if name == study.baseline or row[f] != base[f] else "=" for f, text in texts.items()]
        rows.append([study.label(name), *shown])
    return Table("Configuration differences", [Column("Treatment"), *map(Column, varied)], rows)


def config_differences(data: RunData) -> dict[str, str]:
    """Return treatment's label -> diff (- and +) of its configuration files against those of the baseline.

    Lines that also differ between two trials of the baseline (ports, ids, folders) are left out. So are treatments
    without a difference, and lines after the first `MAX_DIFF_LINES`.
    """
    texts: dict[str, list[list[str]]] = {}  # treatment -> lines in its first and in its last recorded trial
    for name in data.plan.treatments:
        trials = [data.paths.trial(t.trial) for t in data.plan.trials if t.treatment == name]
        folders = [folder for folder in trials if (folder / trial_record.RECORD_NAME).is_file()]
        texts[name] = [list(_config_lines(folders[k])) for k in (0, -1) if folders]
    base = texts[data.study.baseline]
    if not base:
        return {}
    noise = set(_diff_lines(base[0], base[-1]))
    diffs = {}
    for name, own in texts.items():
        differing = [line for line in _diff_lines(base[0], own[0]) if line not in noise] if own else []
        counts = [(line, sum(1 for _ in same)) for line, same in itertools.groupby(differing)]
        lines = [line if number == 1 else f"{line}   ({number} times)" for line, number in counts]
        if lines:
            diffs[data.study.label(name)] = "\n".join(lines[:MAX_DIFF_LINES])
    return diffs


def _config_lines(folder: Path) -> Iterator[str]:
    services = trial_record.read_trial(folder).services
    ports = {match[1] for service in services if (match := _LIVE_PORT.search(service.live_evidence or ""))}
    # the ports of a trial are loadbook's own: those of treatments that take turns differ
    generated = re.compile("|".join([_GENERATED_ID.pattern, *(rf"\b{port}\b" for port in sorted(ports))]))
    for service in services:
        for name in service.config_files:
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
            yield from (generated.sub("…", line.strip()) for line in text.splitlines() if line.strip())


def _diff_lines(before: list[str], after: list[str]) -> list[str]:
    lines = difflib.unified_diff(before, after, n=0, lineterm="")
    return [line for line in lines if line[:1] in "+-" and not line.startswith(("+++", "---"))]


def host_table(data: RunData) -> Table:
    """Return the table of recorded hosts: roles, services, and the most important facts (CPU, memory, kernel...)."""
    run, facts = data.run_record, _fact_rows(data)
    cpus = [host.cpus if "cpus" in host.model_fields_set else [DASH] for host in run.hosts.values()]
    rows = [
        ["roles", *(", ".join(host.roles) for host in run.hosts.values())],
        ["CPUs in use", *("all" if own is None else ", ".join(map(str, own)) for own in cpus)],
        ["tool", *(run.tool_versions.get(alias, DASH) for alias in run.hosts)],
        ["service", *(run.service_versions.get(alias, DASH) for alias in run.hosts)],
        *_version_default_rows(data),
        *(facts[name] for name in FIRST_FACTS if name in facts),
    ]
    return Table("Hosts", [Column("Host"), *(Column(alias, wrap=True) for alias in run.hosts)], rows)


def _version_default_rows(data: RunData) -> list[list[str]]:
    """Return one row per variable that the study does not set and whose default depends on the service's version."""
    run, meanings = data.run_record, dict[str, dict[str, str]]()
    for alias, host in run.hosts.items():
        for text in (run.service_versions.get(alias) or "").split(", "):
            service, _, version = text.partition(" ")
            for role in host.roles:
                if role in data.study.roles and data.study.roles[role].base_setting.service == service:
                    with suppress(LoadbookError):  # a user's own service that was removed
                        for name, meaning in version_defaults(data.study, role, version).items():
                            meanings.setdefault(name, {})[alias] = meaning
    return [[f"{name} unset", *(own.get(alias, DASH) for alias in run.hosts)] for name, own in meanings.items()]


def other_facts_table(data: RunData) -> Table:
    """Return the table of the remaining recorded facts, except those that identify the machine."""
    columns = [Column("Fact"), *(Column(a, wrap=True) for a in data.run_record.hosts)]
    rows = [row for name, row in _fact_rows(data).items() if name not in (*FIRST_FACTS, *PRIVATE_FACTS)]
    return Table("Recorded facts", columns, rows)


def _fact_rows(data: RunData) -> dict[str, list[str]]:
    """Return fact -> table row: display name, and value on each host before the run."""
    facts = [data.facts.get(alias + BEFORE_SUFFIX, {}) for alias in data.run_record.hosts]
    names = dict.fromkeys(name for own in facts for name in own)
    return {name: [fact_name(name), *(fact_text(name, own.get(name)) for own in facts)] for name in names}


def fact_name(name: str) -> str:
    """Return the display name of a fact; sysctls keep their own names."""
    return name if "." in name else name.removesuffix("_b").replace("_", " ")


def fact_text(name: str, fact: Any) -> str:
    """Return the value of a recorded fact as text; a dash if it could not be determined.

    `fact` is a value, or a dictionary with it as "value". It is in bytes if the name ends in `_b` or `_bytes`.
    """
    value = fact["value"] if isinstance(fact, dict) else fact
    if value is None:
        return DASH
    if name.endswith(("_b", "_bytes")) and isinstance(value, int | float):
        return format_bytes(value)
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def fact_changes_table(data: RunData) -> Table:
    """Return the table of facts that differed before and after the run."""
    rows = []
    for alias in data.run_record.hosts:
        before, after = data.facts.get(alias + BEFORE_SUFFIX, {}), data.facts.get(alias + AFTER_SUFFIX, {})
        for name in dict.fromkeys([*before, *after]) if after else ():
            old, new = (fact_text(name, facts.get(name)) for facts in (before, after))
            if old != new and name not in PRIVATE_FACTS:
                kind = (before.get(name) or after[name])["kind"]
                rows.append([f"{alias}: {fact_name(name)}", kind, old, new])
    rows.sort(key=lambda row: ("identity", "tolerance", "info").index(row[1]))
    columns = [Column("Fact"), Column("Kind"), Column("Before", wrap=True), Column("After", wrap=True)]
    return Table("Facts that changed", columns, rows)


def verification_text(data: RunData) -> str:
    """Compare every file of every recorded trial with its recorded checksum; return the result as a sentence."""
    folders = [p for p in sorted(data.paths.trials.glob("*")) if p.is_dir()]
    changed, files = [], 0
    for folder in folders:
        try:
            record = trial_record.read_trial(folder)
        except DataError:
            changed.append(f"{folder.name}/trial.json")
            continue
        files += len(record.files)
        changed += [f"{folder.name}/{name}" for name in trial_record.changed_files(folder, record)]
    if changed:
        return f"NOT as recorded: {', '.join(changed[:5])} ({len(changed)} of {files} files)"
    return f"verified: {pluralize(files, 'file')} of {pluralize(len(folders), 'trial')} match their sha256"


_LAB_NAMES = {"loopback": "loopback lab", "netns": "namespace lab"}


def provenance_pairs(data: RunData) -> list[tuple[str, str]]:
    """Return the sources of the page as (name, value) pairs: study, run, seed, loadbook version, check of raw data."""
    run, began = data.run_record, f"started {started_text(data)}"
    if source := run.imported:
        by = source.conditions if source.times_given else "the times in the outputs"
        began = f"{began} by {by}" if source.timed else "start not known"
        began = f"imported {utc_text(source.at)} UTC from {source.folder}, {began}"
    revision = run.git_revision[:12] if run.git_revision else "not known"
    revision += " (with changes)" if run.git_dirty else ""
    return [
        ("study", f"{data.study.name} (sha256 {run.study_sha256[:12]})"),
        ("run", f"{data.run}, {began}" + (f", in the {_LAB_NAMES[run.lab_kind]}" if run.lab_kind else "")),
        ("execution", page_of(data.study).execution_text(data)),
        ("seed", "none: the order was not drawn by loadbook" if run.seed is None else str(run.seed)),
        ("loadbook", f"{run.loadbook_version}, revision {revision}"),
        ("raw data", verification_text(data)),
    ]


@dataclass(frozen=True)
class ValidityMessage:
    """Messages of one validity rule (or check): name, title, level, number of trials, and text.

    `level` is "invalid", "doubt", "note" or "unchecked". `text` is one of the messages, as an example if they differ.
    """

    name: str
    title: str
    level: str
    trials: int
    text: str


def rule_titles(data: RunData) -> dict[str, str]:
    """Return name -> short title of every validity rule applied to this run, and of the doubts that tools reported."""
    raised = [name for name in data.problems["name"].unique() if name not in EVALUATED_RULES]
    return {name: rule_title(name) for name in (*EVALUATED_RULES, *raised)}


def validity_messages(data: RunData, *levels: str) -> list[ValidityMessage]:
    """Return the messages of validity rules with these levels, one entry per rule and level.

    They are in the order of `levels`, those of most trials first.
    """
    problems = data.problems[data.problems["level"].isin(levels)]
    messages = []
    for (level, rule), hits in list[Any](problems.groupby(["level", "name"], sort=False)):
        texts, advice = list(hits["message"].unique()), rule_advice(rule)
        text = f"{'for example, ' if len(texts) > 1 else ''}{texts[0].removesuffix(advice)}"
        text += advice if any(one.endswith(advice) for one in texts) else ""
        messages.append(ValidityMessage(rule, rule_title(rule), level, hits["trial"].nunique(), text))
    return sorted(messages, key=lambda s: (levels.index(s.level), -s.trials, s.name))


def row_tuples(frame: Any) -> list[Any]:
    """Return a data frame's rows as objects whose attributes are its columns."""
    return list(frame.itertuples(index=False))


def doubt_messages(data: RunData) -> list[ValidityMessage]:
    """Return the messages of all doubts, and of validity rules that could not be checked."""
    return validity_messages(data, "doubt", "unchecked")


def unfinished_notes(data: RunData) -> list[ValidityMessage]:
    """Return a note that the run is not finished, with the command that resumes it; empty for a finished run."""
    if data.run_record.is_finished:
        return []
    text = f"the run was interrupted or is still going on; next: {data.run_record.run_command}"
    return [ValidityMessage("unfinished", "Run not finished", "doubt", 0, text)]


def trial_counts(data: RunData) -> dict[str, int]:
    """Return the numbers of planned trials ("planned"), executed trials ("trials") and valid trials ("valid")."""
    return {"planned": len(data.plan.trials), "trials": len(data.trials), "valid": int(data.trials["valid"].sum())}


def exclusion_counts(data: RunData) -> list[tuple[str, int]]:
    """Return (reason, number of trials) of excluded trials, most frequent reason first.

    Planned trials that were not executed are counted, too.
    """
    causes = with_causes(data)
    left_out = causes[~causes["valid"]]
    reasons = Counter(
        str(cause.text if len(gates) or not reason else reason)
        for cause, gates, reason in zip(left_out["cause"], left_out["gates"], left_out["reason"], strict=True)
    )
    missing = len(data.plan.trials) - len(data.trials)
    return (reasons + Counter({"Not executed": missing})).most_common()


def exclusion_reasons(data: RunData) -> dict[str, str]:
    """Return excluded trial -> short reason, which the order plot writes beside the trial's ×."""
    hits = data.problems[data.problems["level"] == "invalid"].drop_duplicates("trial").set_index("trial")["name"]
    return {
        t.trial: rule_title(hits[t.trial]) if t.trial in hits else str(t.reason or t.status.replace("_", " "))
        for t in row_tuples(data.trials[~data.trials["valid"]])
    }


def doubts_list(messages: Sequence[ValidityMessage]) -> Division:
    """Return doubts as a list, each with its number of trials; links to the doubts lead to this box."""
    if not messages:
        return Division(Paragraph("No rule raised a doubt, and every rule could be checked."), anchor="doubts")
    unchecked = [m for m in messages if m.level == "unchecked"]
    shown = [m for m in messages if m.level != "unchecked" or len(unchecked) == 1]
    counts = [None if m.level == "unchecked" or not m.trials else f" ({pluralize(m.trials, 'trial')})" for m in shown]
    items = [Group(Strong(m.title), count, f": {m.text}") for m, count in zip(shown, counts, strict=True)]
    if len(unchecked) > 1:
        titles = ", ".join(lower_first(m.title) for m in unchecked)
        items.append(Group(Strong(f"{len(unchecked)} rules could not be checked"), f": {titles}."))
        reasons = [Group(Strong(m.title), f": {m.text}") for m in unchecked]
        return Division(
            lines_list(items), HtmlOnly(Details("Why they could not be checked", lines_list(reasons))), anchor="doubts"
        )
    return Division(lines_list(items), anchor="doubts")


def validity_block(data: RunData, levels: Sequence[str]) -> Block:
    """Return the figure of validity rules by trial, and below it the messages with these levels."""
    from loadbook.report.figures.validity import ValidityFigure

    items: list[Content] = [
        Group(Strong(m.title), f" ({m.level}{', ' + pluralize(m.trials, 'trial') if m.trials else ''}): {m.text}")
        for m in validity_messages(data, *levels)
    ]
    picture = Picture(ValidityFigure.from_run(data, rule_titles(data)))
    return Block(picture, lines_list(items) if items else None)


def trial_table(data: RunData, metric: str, labels: Mapping[str, str]) -> Table:
    """Return the table of every trial in order of execution: its value of `metric`, errors, and whether it counts."""
    unit, compared = get_metric(metric).unit, data.values(metric)
    outliers = diagnostics.find_outliers(compared)
    values = trial_values(data.trials, data.measurements, metric, every_trial=True)
    others = data.trials[~data.trials["trial"].isin(compared["trial"])]
    counts = {trial: f"for {measures}" for trial, measures in zip(others["trial"], others["measures"], strict=True)}
    counts |= {trial: f"yes, outlier ({format_percent(distance)})" for trial, distance in outliers.items()}
    counts |= {trial: f"no: {reason}" for trial, reason in exclusion_reasons(data).items()}
    columns = [
        Column("Slot"), Column("Trial"), Column("Block", numeric=True), Column("Treatment"),
        Column(f"{metric}, {unit}", numeric=True), Column("Errors", numeric=True), Column("Took, s", numeric=True),
        Column("Counts"), Column("Validity", wrap=True),
    ]  # fmt: skip
    errors = data.values("errors")[["trial", "value"]].rename(columns={"value": "errors"})
    details = data.trials[["trial", "duration_s", "gates"]]
    rows = [
        [str(t.slot), t.trial, str(t.block), labels[t.treatment], _value_text(t.value, unit),
         _value_text(t.errors, "1"), f"{t.duration_s:.1f}" if t.duration_s == t.duration_s else DASH,
         counts.get(t.trial, "yes"), ", ".join(map(rule_title, t.gates)) or DASH]
        for t in row_tuples(values.merge(errors, on="trial").merge(details, on="trial"))
    ]  # fmt: skip
    return Table("Every trial", columns, rows)


def _value_text(value: float, unit: str) -> str:
    """Return a measured value as text: seconds with a unit, counts and rates with thousands separators."""
    if value != value:
        return "not measured"
    return format_duration(value) if unit == "s" else format_rounded(value)


TOTAL_DRIVER = "*"


def driver_scope(data: RunData) -> list[str]:
    """Return a text on the number of drivers and the largest offset of their starts; empty for one driver."""
    most = int(data.trials["drivers"].max()) if len(data.trials) else 0
    if most < 2:
        return []
    skews = data.values("start_skew")["value"].dropna()
    return [f"{most} drivers" + (f" that started within {format_duration(float(skews.max()))}" if len(skews) else "")]


def driver_latency_table(
    data: RunData, labels: Mapping[str, str], names: tuple[str, ...], percentiles: tuple[str, ...]
) -> Table:
    """Return a table of percentiles per driver (medians over valid trials), of those without a total over drivers.

    `names` are metrics, of which the first that a treatment has is shown; `percentiles` are such as "p99".
    """
    rows = _rows_without_total(data, percentiles)
    statistics = [p for p in percentiles if p in set(rows["statistic"])]
    cells = []
    for treatment in data.plan.treatments:
        own_rows = rows[rows["treatment"] == treatment]
        metric = next((name for name in names if name in set(own_rows["metric"])), None)
        for driver, own in own_rows[own_rows["metric"] == metric].groupby("driver"):
            medians = own.groupby("statistic")["value"].median()
            values = [format_duration(float(medians[p])) if p in medians else DASH for p in statistics]
            cells.append([labels[treatment], str(driver), str(own["trial"].nunique()), *values])
    head = [Column("Treatment", wrap=True), Column("Driver"), Column("Trials", numeric=True)]
    return Table("Latency of each driver", [*head, *(Column(p, numeric=True) for p in statistics)], cells)


def driver_latency_note(data: RunData, *, is_rest: bool = False) -> str:
    """Return the note on why latency is shown separately for each driver; `is_rest`: other percentiles have a total."""
    tools, drivers = " and ".join(data.tools), int(data.trials["drivers"].max())
    if is_rest:
        return (
            f"These percentiles are each driver’s own: the histograms of {tools} are too coarse there for one of "
            f"{drivers}{NBSP}drivers together. Shown are medians over each driver’s trials."
        )
    return (
        f"Latency is each driver’s own: {tools} report percentiles, not the time of every request, and percentiles of "
        f"{drivers}{NBSP}drivers can be neither added nor averaged. So there is no verdict on it; shown are medians "
        "over each driver’s trials."
    )


def _rows_without_total(data: RunData, percentiles: tuple[str, ...]) -> pd.DataFrame:
    """Return percentiles of single drivers in valid trials that have no total over drivers."""
    counted = data.trials.loc[data.trials["valid"], ["trial", "treatment"]]
    wanted = data.measurements[data.measurements["statistic"].isin(percentiles)]
    rows = wanted.merge(counted, on="trial")
    keys = ["trial", "metric", "statistic"]
    totals = rows.loc[rows["driver"] == TOTAL_DRIVER, keys].drop_duplicates().assign(whole=True)
    joined = rows[rows["driver"] != TOTAL_DRIVER].merge(totals, on=keys, how="left")
    return joined[joined["whole"].isna()]
