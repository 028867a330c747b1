"""What the run was made on: configuration differences first, then hosts, versions, facts that changed, provenance."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadbook.core.errors import DataError
from loadbook.core.units import format_bytes
from loadbook.records import manifest
from loadbook.records.conditions import MACHINE_FACT, BOOT_ID_FACT
from loadbook.records.rundata import RunData
from loadbook.report.tables import DASH, Column, Table

BEFORE_SUFFIX, AFTER_SUFFIX = "-before", "-after"
MAX_DIFF_LINES = 40
FIRST_FACTS = ("os", "kernel", "cpu_model", "cpus_online", "memory_total_b", "virtual", "cpu_governor")
PRIVATE_FACTS = (BOOT_ID_FACT, MACHINE_FACT)  # they identify a machine; a report is for others to read
_GENERATED_ID = re.compile(r"\b[0-9a-f]{12,}\b(?:-[0-9a-f]+)*")  # ids of a rendered configuration, other in each trial


def started_text(data: RunData) -> str:
    """Return the date and time at which the run began, UTC."""
    return _utc_text(data.run_json["started"])


def _utc_text(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _start_text(data: RunData) -> str:
    """Return when the run began, and of an imported one when it came here."""
    source = data.run_json.get("imported")
    if not source:
        return f"started {started_text(data)}"
    began = f"started {started_text(data)} by {source['conditions']}" if source["timed"] else "start not known"
    return f"imported {_utc_text(source['at'])} from {source['folder']}, {began}"


def treatment_differences(data: RunData) -> Table:
    """Return the factors in which treatments differ from the baseline, one row per treatment."""
    study, base = data.study, data.study.levels_of(data.study.baseline)
    levels = {name: study.levels_of(name) for name in data.plan["treatments"]}
    varied = [f for f in study.factors if any(row[f] != base[f] for row in levels.values())]
    rows = [
        [study.label(name), *(_factor_level_text(row[f], base[f], name == study.baseline) for f in varied)]
        for name, row in levels.items()
    ]
    columns = [Column("Treatment"), *(Column(f) for f in varied)]
    return Table("Configuration differences", columns, rows)


def _factor_level_text(value: Any, base: Any, is_baseline: bool) -> str:
    text = {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    return text if is_baseline or value != base else "="


def config_differences(data: RunData) -> dict[str, str]:
    """Return treatment label -> the lines of rendered configuration that differ from the baseline's (- and +).

    Lines that also differ between two trials of the baseline (ports, ids, folders) are no part of the treatment.
    """
    texts = {name: _first_and_last_config(data, name) for name in data.plan["treatments"]}
    base = texts[data.study.baseline]
    if not base:
        return {}
    noise = set(_diff_lines(base[0], base[-1]))
    found = {}
    for name, own in texts.items():
        lines = [line for line in _diff_lines(base[0], own[0]) if line not in noise] if own else []
        if lines:
            found[data.study.label(name)] = "\n".join(lines[:MAX_DIFF_LINES])
    return found


def _first_and_last_config(data: RunData, treatment: str) -> list[list[str]]:
    """Return the configuration lines of the first and the last recorded trial of a treatment."""
    trials = [t["trial"] for t in data.plan["trials"] if t["treatment"] == treatment]
    folders = [data.paths.trial(t) for t in trials if data.paths.trial(t).is_dir()]
    chosen = [folders[0], folders[-1]] if folders else []
    return [list(_config_lines(folder)) for folder in chosen]


def _config_lines(folder: Path) -> Iterator[str]:
    for service in manifest.read_trial(folder).services:
        for name in service.config_files:
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
            yield from (_GENERATED_ID.sub("…", line.strip()) for line in text.splitlines() if line.strip())


def _diff_lines(before: list[str], after: list[str]) -> list[str]:
    lines = difflib.unified_diff(before, after, n=0, lineterm="")
    return [line for line in lines if line[:1] in "+-" and not line.startswith(("+++", "---"))]


def host_table(data: RunData) -> Table:
    """Return what each recorded host is for, what it runs, and the facts that readers ask for first."""
    entries, aliases = data.run_json["hosts"], list(data.run_json["hosts"])
    rows = [
        ["roles", *(", ".join(entries[a]["roles"]) for a in aliases)],
        ["CPUs in use", *(_cpus_text(entries[a]["cpus"]) if "cpus" in entries[a] else DASH for a in aliases)],
        ["tool", *(data.run_json["tool_versions"].get(a, DASH) for a in aliases)],
        ["service", *(data.run_json["service_versions"].get(a, DASH) for a in aliases)],
        *_fact_rows(data, [name for name in FIRST_FACTS if name in _fact_names(data)]),
    ]
    return Table("Hosts", [Column("Host"), *(Column(a, wrap=True) for a in aliases)], rows)


def other_facts_table(data: RunData) -> Table:
    """Return every other recorded fact, except what would tell which machine it was."""
    names = [name for name in _fact_names(data) if name not in (*FIRST_FACTS, *PRIVATE_FACTS)]
    columns = [Column("Fact"), *(Column(a, wrap=True) for a in data.run_json["hosts"])]
    return Table("Recorded facts", columns, _fact_rows(data, names))


def _fact_names(data: RunData) -> list[str]:
    return list(dict.fromkeys(n for a in data.run_json["hosts"] for n in data.facts.get(a + BEFORE_SUFFIX, {})))


def _fact_rows(data: RunData, names: list[str]) -> list[list[str]]:
    facts = [data.facts.get(a + BEFORE_SUFFIX, {}) for a in data.run_json["hosts"]]
    return [[fact_name(n), *(fact_text(n, own.get(n)) for own in facts)] for n in names]


def fact_name(name: str) -> str:
    """Return a fact's name for readers; sysctls keep theirs."""
    return name if "." in name else name.removesuffix("_b").replace("_", " ")


def _cpus_text(cpus: list[int] | None) -> str:
    return "all" if cpus is None else ", ".join(map(str, cpus))


def fact_text(name: str, fact: Any) -> str:
    """Return a recorded fact for readers; a fact that could not be had is a dash."""
    value = fact["value"] if isinstance(fact, dict) else fact
    if value is None:
        return DASH
    if name.endswith(("_b", "_bytes")) and isinstance(value, int | float):
        return format_bytes(value)
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def fact_changes_table(data: RunData) -> Table:
    """Return the facts that were not the same before and after the run."""
    rows = []
    for alias in data.run_json["hosts"]:
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
    """Re-hash every file of every recorded trial and return the result as a sentence."""
    folders = [p for p in sorted(data.paths.trials.glob("*")) if p.is_dir()]
    changed, files = [], 0
    for folder in folders:
        try:
            record = manifest.read_trial(folder)
        except DataError:
            changed.append(f"{folder.name}/trial.json")
            continue
        files += len(record.files)
        changed += [f"{folder.name}/{name}" for name in manifest.changed_files(folder, record)]
    if changed:
        return f"NOT as recorded: {', '.join(changed[:5])} ({len(changed)} of {files} files)"
    return f"verified: {files:,} files of {len(folders):,} trials match their sha256"


# True stands for the first kind that there was
_LAB_NAMES = {True: "loopback lab", "loopback": "loopback lab", "netns": "namespace lab"}


def provenance_pairs(data: RunData) -> list[tuple[str, str]]:
    """Return where this page comes from, as pairs of name and value."""
    run = data.run_json
    revision = run["git_revision"][:12] if run.get("git_revision") else "not known"
    revision += " (with changes)" if run.get("git_dirty") else ""
    return [
        ("study", f"{data.study.name} (sha256 {run['study_sha256'][:12]})"),
        ("run", f"{data.run}, {_start_text(data)}" + (f", in the {_LAB_NAMES[run['lab']]}" if run.get("lab") else "")),
        ("seed", "none: the order was not drawn by loadbook" if run["seed"] is None else str(run["seed"])),
        ("loadbook", f"{run['loadbook_version']}, revision {revision}"),
        ("raw data", verification_text(data)),
    ]
