"""Recorded conditions in which two runs differ, in words and as a table; nothing that tells which machine it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loadbook.core.units import joined
from loadbook.records.conditions import MACHINE, REBOOTED, Change
from loadbook.report.setup import fact_name, fact_text
from loadbook.report.tables import DASH, Column, Table

NAMES = {MACHINE: "machine", REBOOTED: "boot", "facts of the host": "facts of the host"}
PRIVATE = {MACHINE: ("one machine", "another machine"), REBOOTED: ("one boot", "booted anew")}
ABSENT = {"treatment": "not in it", "host": "no such host", "version": "not there", "run": "no", "study": "not set"}
MAX_PLACES = 3


def name(change: Change, labels: Mapping[str, str] | None = None) -> str:
    """Return what changed and where: "web: kernel"; `labels` are the treatments' names for readers."""
    if change.about == "treatment":
        treatment, colon, factor = change.name.partition(": ")
        return f"treatment {(labels or {}).get(treatment, treatment)}{colon}{factor}"
    shown = NAMES.get(change.name) or (fact_name(change.name) if change.about == "fact" else change.name)
    return f"{places(change)}: {shown}" if change.where else shown


def places(change: Change) -> str:
    """Return the places at which something changed, as one phrase."""
    more = len(change.where) - MAX_PLACES
    return joined(list(change.where) if more < 1 else [*change.where[:MAX_PLACES], f"{more} more"])


def values(change: Change) -> tuple[str, str]:
    """Return what it was and what it is."""
    if change.name in PRIVATE and change.about == "fact":
        return PRIVATE[change.name]
    older, newer = (_value(change, value) for value in (change.before, change.after))
    return older, newer


def _value(change: Change, value: Any) -> str:
    if value is None:
        return ABSENT.get(change.about, "not known")
    if isinstance(value, bool):
        return "on" if value else "off"
    text = fact_text(change.name, value) if change.about == "fact" else str(value)
    return "not known" if text == DASH else text


def said(change: Change, labels: Mapping[str, str] | None = None) -> str:
    """Return one change in words: "web: kernel 6.1 → 6.8"."""
    older, newer = values(change)
    return f"{name(change, labels)} {older} → {newer}"


def table(changes: Sequence[Change], labels: Mapping[str, str]) -> Table:
    """Return every change, one row each, in the order of `conditions.changes`."""
    rows = [[name(change, labels), *values(change)] for change in changes]
    return Table("Changes", [Column("Condition"), Column("Older run", wrap=True), Column("Newer run", wrap=True)], rows)
