"""Conditions in which two runs differ, as a page names them."""

from __future__ import annotations

from typing import Any

import pytest

from loadbook.report.checks import change_name, change_values
from loadbook.store.run_record import ConditionChange


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (ConditionChange("fact", "memory_total_b", 1, 2, ("web",)), "web: memory total"),
        (ConditionChange("fact", "kernel", 1, 2, ("a", "b", "c")), "a, b and c: kernel"),
        (ConditionChange("fact", "kernel", 1, 2, ("a", "b", "c", "d", "e")), "a, b, c and 2 more: kernel"),
        (ConditionChange("treatment", "large: page_bytes", 1, 2), "treatment Large: page_bytes"),
        (ConditionChange("treatment", "other", 1, 2), "treatment other"),
    ],
)
def test_changed_condition_is_named_with_its_place(change: ConditionChange, name: str) -> None:
    assert change_name(change, {"large": "Large"}) == name


@pytest.mark.parametrize(
    ("category", "name", "values", "texts"),
    [
        ("fact", "memory_total_b", (1024, 2048), ("1.0 KiB", "2.0 KiB")),
        ("fact", "kernel", (None, "6.1"), ("not known", "6.1")),
        ("treatment", "x", (None, "on"), ("not in it", "on")),
        ("study", "keepalive", (True, False), ("on", "off")),
        ("host", "web", (None, "there"), ("no such host", "there")),
    ],
)
def test_values_of_a_changed_condition_are_shown_old_and_new(
    category: Any, name: str, values: tuple[Any, Any], texts: tuple[str, str]
) -> None:
    found = change_values(ConditionChange(category, name, *values))
    assert tuple(text.replace("\u00a0", " ") for text in found) == texts
