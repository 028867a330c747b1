"""The corpus in what people have, conditions.csv and names of files: kept as text, or refused with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hostile_texts import HTML, SHEETS, TEMPLATES, no_canary
from import_files import folder, project, rows, write
from loadbook.imported.study import ImportOptions, read_import, write_import
from loadbook.ingestion.ingest import ingest
from loadbook.store.tables import load_run, read_table

pytestmark = pytest.mark.fault(43, 44)
ACCEPTED = [t for t in (*HTML, *TEMPLATES, *SHEETS) if t.isprintable()]


def two(there: Path) -> list[dict[str, str]]:
    """Return a row of the baseline and one of another treatment."""
    return list({row["treatment"]: row for row in rows(there) if row["treatment"] != "tcp_nopush on"}.values())


def test_import_stores_hostile_labels_unchanged_in_tables(tmp_path: Path) -> None:
    """A treatment each: kept raw, in the study's TOML, in parquet, and read back to the letter."""
    layout, there = project(tmp_path), folder(tmp_path)
    other = {row["treatment"]: row for row in two(there)}
    made: list[dict[str, object]] = [dict(other["plain"])]
    for number, text in enumerate(ACCEPTED):
        copy = there / f"copy-{number}.txt"
        copy.write_bytes((there / other["access log"]["file"]).read_bytes())
        made.append(
            other["access log"] | {"file": copy.name, "treatment": text, "started": "", "factor_access_log": text}  # type: ignore[arg-type]
        )
    made[0] |= {"started": ""}
    keep = read_import(there, write(there, made), ImportOptions("x", "plain"))
    run = write_import(layout, keep)
    ingest(layout.run("x", run))
    data = load_run(layout, "x")
    labels = {data.study.label(name) for name in data.study.treatments}
    assert labels == {"plain", *(text.strip() for text in ACCEPTED)}
    trials = read_table(layout.run("x", run).table("trials"), "trials")
    assert len(trials) == len(ACCEPTED) + 1 and all(re.fullmatch(r"[\w.-]+", t) for t in trials["treatment"])
    assert no_canary(tmp_path)
