"""docs/validity-rules.md lists every rule as core/validity_rules.toml has it; run this file to update its tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from loadbook.core.validity_rules import RULE_INFO, RuleInfo, rule_advice
from loadbook.study.limits import ValidityLimits

PAGE = Path(__file__).parents[3] / "docs" / "validity-rules.md"
HEADS = {
    "trial": "## Rules on a trial",
    "run": "## Rules on a run",
    "tool": "## Doubts of the tools",
    "file": "## Unreadable or missing data",
}


def default(key: str) -> str:
    return f"`{key}` = {ValidityLimits.model_fields[key].default:g}"


def evidence(info: RuleInfo) -> str:
    usual = {"tool": "doubt", "file": "note"}[info.by]
    return info.signal if info.level == usual else f"{info.signal} (*{info.level}*)"


def rules_table(rules: list[RuleInfo]) -> str:
    """Return the table of rules on trials or runs; the program's messages end with the remedy."""
    return table(
        {
            "Rule": map(title, rules),
            "Evidence": [info.signal for info in rules],
            "Level": [info.level for info in rules],
            "Thresholds": [", ".join(map(default, info.thresholds)) or "-" for info in rules],
        }
    )


def problems_table(rules: list[RuleInfo]) -> str:
    """Return the table of a tool's doubts, or of problems of files, with the remedy if no message has it."""
    columns: dict[str, Iterable[str]] = {"Rule": map(title, rules), "Evidence": map(evidence, rules)}
    if not any(rule_advice(info.name) for info in rules):
        columns["Remedy"] = [info.remedy[:1].upper() + info.remedy[1:] for info in rules]
    return table(columns)


def title(info: RuleInfo) -> str:
    return f"**{info.title}** `{info.name}`"


def table(columns: dict[str, Iterable[str]]) -> str:
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "\n".join(f"| {' | '.join(row)} |" for row in zip(*columns.values(), strict=True))


def tables() -> dict[str, str]:
    """Return the table under each heading."""
    found = {}
    for by, heading in HEADS.items():
        rules = [info for info in RULE_INFO.values() if info.by == by]
        found[heading] = rules_table(rules) if by in ("trial", "run") else problems_table(rules)
    return found


def test_validity_rules_page_lists_every_rule_with_level_and_thresholds() -> None:
    text = PAGE.read_text()
    assert text == updated(text), "bring it up to date with: .venv/bin/python tests/unit/validity/test_rules_doc.py"


def test_validity_rules_page_example_of_thresholds_is_valid() -> None:
    import tomllib

    (example,) = re.findall(r"```toml\n(\[validity\].*?)```", PAGE.read_text(), re.DOTALL)
    assert ValidityLimits.model_validate(tomllib.loads(example)["validity"]) != ValidityLimits()


def updated(text: str) -> str:
    """Return the page with the tables as they should be."""
    for heading, new in tables().items():
        before, section = text.split(f"\n{heading}\n", 1)
        old = "\n".join(line for line in section.split("\n## ")[0].splitlines() if line.startswith("|"))
        text = f"{before}\n{heading}\n{section.replace(old, new, 1)}"
    return text


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
