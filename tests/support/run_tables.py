"""Tables of a run, to compare two runs with each other."""

from __future__ import annotations

import pandas as pd

from loadbook.ingestion.ingest import ingest
from loadbook.store.paths import RunPaths
from loadbook.store.tables import TABLES, read_table


def tables_without_own_times(paths: RunPaths) -> dict[str, pd.DataFrame]:
    """Return the tables without what differs between runs: ids and the times of the run itself."""
    ingest(paths)
    found = {name: read_table(paths.table(name), name) for name in TABLES}
    # a replay does not look for other runs on the machine, such as those of other tests
    messages = found["problems"]["message"].str.replace(r"; on this machine was run .*?\): ", ": ", regex=True)
    found["problems"] = found["problems"].assign(message=messages)
    return {
        name: table.drop(columns=["run", "started", "duration_s"], errors="ignore") for name, table in found.items()
    }
