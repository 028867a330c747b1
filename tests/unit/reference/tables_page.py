"""The page of tables: every column and every metric, from the registries that the code uses."""

from docstrings import table

from loadbook.core.metrics import METRICS
from loadbook.store.columns import COLUMNS

HEAD = """# Columns and metrics

Columns of `data/processed/<study>/<run>/*.parquet`, also those of `run.trials` and the other frames in a notebook.
[data-format](../data-format.md) says more of series, counters and totals. `?` marks columns that may be null.
The table `trials` has a further column `factor_<name>` per factor of the study: text in the file. In `run.trials` and
`run.wide()`, levels are numbers where all levels of the factor are decimal numbers, in the unit of the setting (such as
bytes for `page_bytes`); text such as `64k`, and a factor with levels such as `off` and `1`, stay text."""
METRICS_HEAD = """## Metrics

Units are base units: s, B, 1/s, B/s and 1 (a number or a share). [tools](../tools.md) says how each load generator
defines its metrics."""


def page() -> str:
    """Return the page."""
    sections = [HEAD]
    for name, columns in COLUMNS.items():
        rows = [[f"`{column}`", f"`{info.type}`", info.meaning] for column, info in columns.items()]
        sections.append(f"## {name}\n\n{table(['column', 'type', 'meaning'], rows)}")
    metrics = [[f"`{m.name}`", m.unit, m.better or "–", m.meaning] for m in METRICS.values()]
    sections.append(f"{METRICS_HEAD}\n\n{table(['metric', 'unit', 'better', 'meaning'], metrics)}")
    return "\n\n".join(sections) + "\n"
