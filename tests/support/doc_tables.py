"""The table of docs/services.md, made from the services: `python tests/support/doc_tables.py` writes it.

The tables of their variables are the page docs/reference/services.md (`tests/unit/reference/reference_pages.py`).
"""

import re
from pathlib import Path

from loadbook.services import ServiceSpec, known_services, load_service
from loadbook.services.variables import TextVar, Var

PAGE = Path(__file__).parents[2] / "docs" / "services.md"


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
    block = f"<!-- services -->\n\n{rows.rstrip()}\n\n<!-- /services -->"
    return re.sub(r"<!-- services -->(.*<!-- /services -->)?", lambda _: block, text, count=1, flags=re.DOTALL)


def variables_page() -> str:
    """Return the page of the variables of all services."""
    about = "For `vars` of a role in a study ([services](../services.md)); `unset` leaves a setting out."
    sections = [variables(load_service(name)) for name in known_services()]
    return "\n".join(["# Variables of services", "", about, "", *sections])


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
