"""Every sentence that the engine makes of a verdict, to the letter, and the words that it may not use."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import golden
import pytest

import loadbook
from loadbook.stats.results import VERDICT_ORDER

PACKAGE = Path(loadbook.__file__).parent
CASES = list(golden.cases())
# "does not matter" is a claim: only a verdict that excludes more than the margin may make it
NEVER = re.compile(r"\b(no effect|significant\w*|proves?|proved|proven)\b", re.IGNORECASE)
SAME = re.compile(r"\b(the )?same\b", re.IGNORECASE)
NO_DIFFERENCE, NO_LOSS = re.compile(r"no difference|equivalent"), re.compile(r"no loss|no degradation")
# the modules that word verdicts; the A/A arm tries same against same on purpose
WORDING = ("text", "headline", "verdict", "compare")
ON_PURPOSE = "Same against same"


def test_golden_sentences_are_unchanged() -> None:
    printed = golden.GOLDEN.read_text(encoding="utf-8")
    assert golden.table() == printed, (
        "if the new wording is right: python tests/unit/stats/golden.py; read the difference"
    )


def test_golden_sentences_cover_every_verdict_in_both_directions() -> None:
    assert {case.verdict.kind for case in CASES} == set(VERDICT_ORDER)
    for metric in golden.METRICS:
        kinds = {case.verdict.kind for case in CASES if case.name.startswith(f"{metric}:")}
        assert kinds == set(VERDICT_ORDER)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_words_for_equivalence_occur_only_in_verdicts_of_equivalence(case: golden.Case) -> None:
    for text in (case.report, case.line):
        assert not NEVER.search(text) and not SAME.search(text)
        assert bool(NO_DIFFERENCE.search(text)) == (case.verdict.kind == "equivalent")
        assert bool(NO_LOSS.search(text)) == (case.verdict.kind == "no-loss")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_report_sentences_follow_typographic_rules(case: golden.Case) -> None:
    assert case.report.endswith(".")
    assert " %" not in case.report and not re.search(r"-\d", case.report)  # a no-break space, a true minus
    assert case.verdict.kind == "invalid" or "\u00a0%" in case.report
    assert "\u00a0" not in case.line and "−" not in case.line


def literals(path: Path) -> list[str]:
    """Return the texts of a module that are no documentation: those that may be printed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
    ]


@pytest.mark.parametrize("folder", ["stats", "report"])
def test_source_code_contains_no_forbidden_report_words(folder: str) -> None:
    files = sorted((PACKAGE / folder).rglob("*.py"))
    assert len(files) > 10
    assert not [(p.name, text) for p in files for text in literals(p) if " " in text and NEVER.search(text)]


@pytest.mark.parametrize("name", WORDING)
def test_word_same_is_used_only_for_aa_arms(name: str) -> None:
    printed = [text.replace(ON_PURPOSE, "") for text in literals(PACKAGE / "stats" / f"{name}.py")]
    assert not [text for text in printed if SAME.search(text)]


def test_words_no_loss_are_used_only_for_non_inferiority() -> None:
    texts = [
        (p.name, text)
        for p in [PACKAGE / "stats" / "phrases.py", PACKAGE / "stats" / "headline.py"]
        for text in literals(p)
    ]
    assert {name for name, text in texts if NO_LOSS.search(text.lower())} == {"phrases.py", "headline.py"}
