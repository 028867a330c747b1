"""The proofs in docs/reliability.md, made from the marks of the tests: `python tests/support/fault_proofs.py`.

A test that injects case N is marked `@pytest.mark.fault(N)`. The page has the number of tests of each promise between
`<!-- proof 1 2 -->` and `<!-- /proof -->`. The cases of fault_cases.toml are the page docs/reference/fault-cases.md
(`tests/unit/reference/reference_pages.py`).
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fault_plugin import cases

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reliability.md"


class Proof(NamedTuple):
    """A test that injects a fault: its file below tests/, and its name."""

    file: str
    name: str


@cache
def proofs() -> dict[int, list[Proof]]:
    """Return {case: the tests marked with it}, read from the source files without importing them."""
    found: dict[int, list[Proof]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        common = [node.value for node in module.body if isinstance(node, ast.Assign) and _names(node) == ["pytestmark"]]
        for test in (
            node for node in module.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
        ):
            marks = [mark for part in (*common, *test.decorator_list) for mark in ast.walk(part)]
            for number in dict.fromkeys(_numbers(marks)):
                found[number].append(Proof(str(path.relative_to(TESTS)), test.name))
    return found


def _names(node: ast.Assign) -> list[str]:
    return [target.id for target in node.targets if isinstance(target, ast.Name)]


def _numbers(nodes: Iterable[ast.AST]) -> Iterator[int]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fault":
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and type(arg.value) is int)


def written(text: str) -> str:
    """Return the text of the page with its lists of tests updated."""
    found = proofs()

    def proof(match: re.Match[str]) -> str:
        numbers = [int(word) for word in match[1].split()]
        return f"<!-- proof {match[1]} -->\n{_proof(found, numbers)}\n<!-- /proof -->"

    return re.sub(r"<!-- proof ([\d ]+) -->.*?<!-- /proof -->", proof, text, flags=re.DOTALL)


def _proof(found: dict[int, list[Proof]], numbers: list[int]) -> str:
    tests = {proof for number in numbers for proof in found.get(number, ())}
    printed = f"case{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    return f"*{len(tests) or 'None yet'} test{'s' if len(tests) != 1 else ''}: {printed}.*"


def cases_page() -> str:
    """Return the page of all fault cases."""
    about = "Faults that tests inject, and the reaction of loadbook ([reliability](../reliability.md))."
    finds = '`grep -rnE "fault\\(.*\\b9\\b" tests` finds the tests of case 9.'
    return f"# Fault cases\n\n{about} {finds}\n\n{_table()}"


def _table() -> str:
    lines, part = [], ""
    for number, title, injected, expected in cases():
        if title != part:
            part = title
            lines += ["", f"## {title}", "", "| case | fault | reaction |", "|---|---|---|"]
        lines.append(f"| {number} | {injected} | {expected} |")
    return "\n".join([*lines[1:], ""])


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
