"""Update of the table of all load generators in docs/reference/calibration.md from a certificate.

Usage: loadbook calibrate --blocks 3; .venv/bin/python benchmarks/calibration.py data/certificates/RUN.json

The table is between the two comments named `certificate`. Rows of tools without readings in the certificate stay as
they are; a new tool is listed without a verdict.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from loadbook.analyses.effects.page import PERCENTILE_DEFINITIONS
from loadbook.calibration.certificate import Certificate, Trust
from loadbook.calibration.citation import trust_lists
from loadbook.core.errors import ToolError
from loadbook.core.units import join_words
from loadbook.modes.interleaved.spec import PAUSABLE_TOOLS
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "calibration.md"
BEGIN, END = "<!-- certificate -->", "<!-- end of certificate -->"
HEADINGS = ("tool", "loop", "arrivals", "times are", "paused", "trusted", "not trusted: said for true, case")


def rows(certificate: Certificate) -> Iterator[Sequence[str]]:
    """Yield a row for each tool and load model, and one for each tool that is only read."""
    for name in base.tool_names():
        tool = base.load_tool(name)
        times, version = PERCENTILE_DEFINITIONS.get(name, "none"), certificate.tools.get(name, "")
        if not tool.load_models:
            yield name, "read, not run", "", times, "", "", ""
        for load_model in sorted(tool.load_models):
            trusts = certificate.of_tool(name, load_model)
            yield (
                f"{name} {version}".strip(),
                load_model,
                join_words(arrivals(name)) if load_model == "open" else "users",
                times,
                "yes" if name in PAUSABLE_TOOLS and load_model == "closed" else "no",
                *(verdicts(trusts) if trusts else ("not calibrated", "")),
            )


def verdicts(trusts: list[Trust]) -> tuple[str, str]:
    """Return the numbers that may be trusted, and those that may not, with their worst case."""
    trusted, others = trust_lists(trusts)
    return join_words(trusted) or "nothing", "; ".join(others) or "nothing"


def arrivals(name: str) -> list[str]:
    """Return the arrivals that a tool can make at a rate."""
    found = []
    for arrival in ("even", "poisson", "users"):
        load = Workload(tool=name, model="open", rate_per_s=100, arrivals=arrival)
        try:
            base.load_tool(name).command(load, Target("192.0.2.1", 80), 2)
        except ToolError:
            continue
        found.append(arrival)
    return found


def main(file: Path) -> None:
    """Replace the rows of the certificate's tools in docs/reference/calibration.md."""
    certificate = Certificate.model_validate_json(file.read_bytes())
    before, begin, rest = PAGE.read_text().partition(f"{BEGIN}\n")
    old, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE} has no place between {BEGIN} and {END}")
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    for row in rows(certificate):
        name, loop = row[0].split()[0], row[1]
        known = re.search(rf"^\| {name}( \S+)? \| {loop} \|.*$", old, re.MULTILINE)
        lines.append(known[0] if known and name not in certificate.tools else "| " + " | ".join(row) + " |")
    PAGE.write_text("\n".join([before + BEGIN, *lines, END]) + after)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
