"""The tables of docs/services.md, made from the services: `python tests/services/doc_tables.py` writes them."""

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
    """Return the page with both tables made again."""
    head = "| service | description | counters |\n|---|---|---|\n"
    specs = [load_service(name) for name in known_services()]
    for mark, rows in (
        ("services", head + "\n".join(map(overview, specs))),
        ("variables", "\n".join(map(variables, specs))),
    ):
        block = f"<!-- {mark} -->\n\n{rows.rstrip()}\n\n<!-- /{mark} -->"
        text = re.sub(rf"<!-- {mark} -->(.*<!-- /{mark} -->)?", lambda _, b=block: b, text, count=1, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
