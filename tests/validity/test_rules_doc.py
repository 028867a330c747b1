"""docs/gates.md lists every gate as core/gates.toml has it; run this file to bring its tables up to date."""

from __future__ import annotations

import re
from pathlib import Path

from loadbook.core.validity_rules import RULE_INFO, RuleInfo
from loadbook.study.limits import ValidityLimits

PAGE = Path(__file__).parents[2] / "docs" / "gates.md"
HEADS = {
    "trial": "## Rules on a trial",
    "run": "## Rules on a run",
    "tool": "## Doubts of the tools",
    "file": "## What could not be read",
}


def default(key: str) -> str:
    return f"`{key}` = {ValidityLimits.model_fields[key].default:g}"


def row(info: RuleInfo) -> str:
    keys = ", ".join(map(default, info.thresholds)) or "-"
    advice = info.remedy[:1].upper() + info.remedy[1:]
    return f"| **{info.title}** `{info.name}` | {info.signal} | {info.level} | {keys} | {advice} |"


def tables() -> dict[str, str]:
    """Return the table under each heading."""
    head = "| Gate | Signal | Level | Thresholds | Advice |\n|---|---|---|---|---|\n"
    return {
        heading: head + "\n".join(row(info) for info in RULE_INFO.values() if info.by == by)
        for by, heading in HEADS.items()
    }


def test_documentation_lists_every_validity_rule_with_level_thresholds_and_remedy() -> None:
    text = PAGE.read_text()
    assert text == updated(text), "bring it up to date with: .venv/bin/python tests/validity/test_rules_doc.py"


def test_documented_example_of_thresholds_is_valid() -> None:
    import tomllib

    (example,) = re.findall(r"```toml\n(\[validity\].*?)```", PAGE.read_text(), re.DOTALL)
    assert ValidityLimits.model_validate(tomllib.loads(example)["validity"]) != ValidityLimits()


def updated(text: str) -> str:
    """Return the page with the tables as they should be."""
    for heading, table in tables().items():
        before, section = text.split(f"\n{heading}\n", 1)
        old = "\n".join(line for line in section.split("\n## ")[0].splitlines() if line.startswith("|"))
        text = f"{before}\n{heading}\n{section.replace(old, table, 1)}"
    return text


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
