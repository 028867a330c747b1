"""Parts of docs that are made from code: `python tests/support/doc_tables.py` writes them.

These are the table of services in docs/services.md and the steps of a run in docs/architecture.md.

The tables of their variables are the page docs/reference/services.md (`tests/unit/reference/reference_pages.py`).
"""

import re
from pathlib import Path

from loadbook.execution.session import RUN_STEPS
from loadbook.services import ServiceSpec, known_services, load_service
from loadbook.services.variables import TextVar, Var

DOCS = Path(__file__).parents[2] / "docs"
PAGE, ARCHITECTURE = DOCS / "services.md", DOCS / "architecture.md"
RUNS = {"all": "", "new": " (new run)", "resumed": " (resumed run)"}


def allowed(var: Var) -> str:
    """Say which values a variable may have."""
    return (
        var.allowed.replace(var.pattern, f"`{var.pattern}`".replace("|", "\\|"))
        if isinstance(var, TextVar)
        else var.allowed
    )


def overview(spec: ServiceSpec) -> str:
    """Return the row of a service in the first table."""
    counters = ", ".join(spec.counters.patterns) if spec.counters else "-"
    return f"| [{spec.name}](../lib/loadbook/services/{spec.name}/README.md) | {spec.about} | {counters} |"


def variables(spec: ServiceSpec) -> str:
    """Return the section of a service with its variables."""
    if not spec.vars:
        return f"## {spec.name}\n\nNo variables.\n"
    head = f"## {spec.name}\n\n| variable | values | default | meaning |\n|---|---|---|---|\n"
    about = {name: var.about.replace("|", "\\|") for name, var in spec.vars.items()}
    rows = [f"| `{n}` | {allowed(var)} | {var.default} | {about[n]} |\n" for n, var in spec.vars.items()]
    return head + "".join(rows)


def written(text: str) -> str:
    """Return the page with its table made again."""
    head = "| service | description | counters |\n|---|---|---|\n"
    rows = head + "\n".join(overview(load_service(name)) for name in known_services())
    return with_block(text, "services", rows.rstrip())


def with_run_steps(text: str) -> str:
    """Return docs/architecture.md with its list of the steps of a run made again."""
    steps = [f"{number}. {step.purpose}{RUNS[step.runs]}" for number, step in enumerate(RUN_STEPS, 1)]
    return with_block(text, "steps of a run", "\n".join(steps))


def with_block(text: str, name: str, block: str) -> str:
    """Return a page with the part between the comments `name` and `/name` replaced."""
    whole = f"<!-- {name} -->\n\n{block}\n\n<!-- /{name} -->"
    return re.sub(rf"<!-- {name} -->(.*<!-- /{name} -->)?", lambda _: whole, text, count=1, flags=re.DOTALL)


def variables_page() -> str:
    """Return the page of the variables of all services."""
    about = "For `vars` of a role in a study ([services](../services.md)); `unset` leaves a setting out."
    sections = [variables(load_service(name)) for name in known_services()]
    return "\n".join(["# Variables of services", "", about, "", *sections])


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
    ARCHITECTURE.write_text(with_run_steps(ARCHITECTURE.read_text()))
