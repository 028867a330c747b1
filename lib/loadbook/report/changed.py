"""Recorded conditions in which two runs differ, in words and as a table; nothing that tells which machine it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loadbook.core.units import join_words
from loadbook.records.conditions import MACHINE_FACT, BOOT_ID_FACT, ConditionChange
from loadbook.report.setup import fact_name, fact_text
from loadbook.report.tables import DASH, Column, Table

CONDITION_NAMES = {MACHINE_FACT: "machine", BOOT_ID_FACT: "boot", "facts of the host": "facts of the host"}
PRIVATE_CONDITIONS = {MACHINE_FACT: ("one machine", "another machine"), BOOT_ID_FACT: ("one boot", "booted anew")}
ABSENT_TEXTS = {"treatment": "not in it", "host": "no such host", "version": "not there", "run": "no", "study": "not set"}
MAX_PLACES = 3


def change_name(change: ConditionChange, labels: Mapping[str, str] | None = None) -> str:
    """Return what changed and where: "web: kernel"; `labels` are the treatments' names for readers."""
    if change.category == "treatment":
        treatment, colon, factor = change.name.partition(": ")
        return f"treatment {(labels or {}).get(treatment, treatment)}{colon}{factor}"
    text = CONDITION_NAMES.get(change.name) or (fact_name(change.name) if change.category == "fact" else change.name)
    return f"{change_places(change)}: {text}" if change.host_roles else text


def change_places(change: ConditionChange) -> str:
    """Return the places at which something changed, as one phrase."""
    more = len(change.host_roles) - MAX_PLACES
    return join_words(list(change.host_roles) if more < 1 else [*change.host_roles[:MAX_PLACES], f"{more} more"])


def change_values(change: ConditionChange) -> tuple[str, str]:
    """Return what it was and what it is."""
    if change.name in PRIVATE_CONDITIONS and change.category == "fact":
        return PRIVATE_CONDITIONS[change.name]
    older, newer = (_change_value_text(change, value) for value in (change.before, change.after))
    return older, newer


def _change_value_text(change: ConditionChange, value: Any) -> str:
    if value is None:
        return ABSENT_TEXTS.get(change.category, "not known")
    if isinstance(value, bool):
        return "on" if value else "off"
    text = fact_text(change.name, value) if change.category == "fact" else str(value)
    return "not known" if text == DASH else text


def describe_change(change: ConditionChange, labels: Mapping[str, str] | None = None) -> str:
    """Return one change in words: "web: kernel 6.1 → 6.8"."""
    older, newer = change_values(change)
    return f"{change_name(change, labels)} {older} → {newer}"


def changes_table(changes: Sequence[ConditionChange], labels: Mapping[str, str]) -> Table:
    """Return every change, one row each, in the order of `conditions.changes`."""
    rows = [[change_name(change, labels), *change_values(change)] for change in changes]
    return Table("Changes", [Column("Condition"), Column("Older run", wrap=True), Column("Newer run", wrap=True)], rows)
