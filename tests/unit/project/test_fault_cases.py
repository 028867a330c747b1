"""Every fault case has a test that injects it, and docs/reliability.md says which."""

import re

import fault_proofs
from fault_plugin import cases

NUMBERS = [number for number, *_ in cases()]
PAGE = fault_proofs.PAGE.read_text(encoding="utf-8")


def test_fault_cases_have_unique_numbers() -> None:
    assert list(range(1, len(NUMBERS) + 1)) == NUMBERS


def test_every_fault_case_has_a_test() -> None:
    assert [number for number in NUMBERS if not fault_proofs.proofs().get(number)] == []
    assert set(fault_proofs.proofs()) <= set(NUMBERS)


def test_reliability_page_names_existing_tests() -> None:
    assert fault_proofs.written(PAGE) == PAGE, "run python tests/support/fault_proofs.py"


def test_every_promise_of_the_reliability_page_has_tests_of_fault_cases() -> None:
    promises = re.findall(r"^### (P\d+)\. .*?<!-- proof ([\d ]+) -->", PAGE, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in promises] == [f"P{k}" for k in range(1, 15)]
    assert {int(word) for _, numbers in promises for word in numbers.split()} == set(NUMBERS)
    assert "None yet" not in PAGE
