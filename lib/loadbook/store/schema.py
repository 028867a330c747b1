"""The tables (docs/data-format.md), their arrow schemas, and parquet that is written whole or not at all.

A trials table has one more column `factor_<name>` (text) per factor of its study. Units are base units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import DataError
from loadbook.store.atomic import atomic_path

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SCHEMA_VERSION = 1
ROWS_PER_GROUP = 1 << 20  # rows
STATUSES = ("ok", "partial", "invalid", "tool_failed", "timeout", "lost", "cancelled")

# name -> arrow type, in column order; "?" marks columns that may be null
TABLES: dict[str, dict[str, str]] = {
    "trials": {
        "study": "string", "run": "string", "trial": "string", "treatment": "string",
        "block": "int32", "slot": "int32", "status": "string", "attempt": "int32",
        "started": "float64?", "duration_s": "float64?",
        "tool": "string", "tool_version": "string?", "load_model": "string",
        "offered_per_s": "float64?", "concurrency": "int32?", "drivers": "int32",
        "valid": "bool", "gates": "list<string>", "reason": "string?",
        "response_status": "int32?", "response_bytes": "int64?", "response_sha256": "string?",
        "config_live": "bool?",
    },
    "measurements": {
        "study": "string", "run": "string", "trial": "string", "driver": "string",
        "metric": "string", "statistic": "string", "value": "float64", "unit": "string", "text": "string?",
    },
    "samples": {
        "study": "string", "run": "string", "trial": "string", "driver": "string", "series": "string",
        "metric": "string", "x": "float64", "x_unit": "string", "value": "float64", "unit": "string",
    },
    "traces": {
        "study": "string", "run": "string", "trial": "string", "host": "string", "role": "string",
        "t_s": "float64", "metric": "string", "item": "string", "value": "float64", "unit": "string",
        "source": "string",
    },
    "problems": {
        "study": "string", "run": "string", "trial": "string?", "host": "string?", "file": "string?",
        "line": "int32?", "name": "string", "level": "string", "message": "string",
    },
}  # fmt: skip
# "unchecked": a rule without evidence (no monitor on the balancer, say)
PROBLEM_LEVELS = ("invalid", "doubt", "note", "unchecked")


def arrow_schema(table: str, factors: tuple[str, ...] = ()) -> pa.Schema:
    """Return the arrow schema of `table`; `factors` adds the trials table's factor columns."""
    import pyarrow as pa

    types = {
        "string": pa.string(), "int32": pa.int32(), "int64": pa.int64(), "float64": pa.float64(),
        "bool": pa.bool_(), "list<string>": pa.list_(pa.string()),
    }  # fmt: skip
    fields = [pa.field(n, types[t.rstrip("?")], nullable=t.endswith("?")) for n, t in TABLES[table].items()]
    if table == "trials":
        fields += [pa.field(f"factor_{name}", pa.string(), nullable=True) for name in factors]
    return pa.schema(fields, metadata={"loadbook_schema": str(SCHEMA_VERSION)})


def to_arrow(table: str, rows: Sequence[Mapping[str, Any]], factors: tuple[str, ...] = ()) -> pa.Table:
    """Return `rows` as an arrow table of the declared types.

    Raises
    ------
    DataError : a row lacks a required value or has one of another type.
    """
    import pyarrow as pa

    schema = arrow_schema(table, factors)
    try:
        data = pa.table([pa.array(_column_values(rows, f.name, f.nullable), f.type) for f in schema], schema=schema)
        data.validate(full=True)
        _check_nulls(data)
    except KeyError as error:
        raise DataError(f"table {table}: a row lacks the column {error}") from error
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
        raise DataError(f"table {table}: {error}") from error
    return data


def _column_values(rows: Sequence[Mapping[str, Any]], name: str, nullable: bool) -> list[Any]:
    return [row.get(name) for row in rows] if nullable else [row[name] for row in rows]


def write_arrow(path: Path, data: pa.Table) -> None:
    """Write an arrow table as the parquet file `path`, whole or not at all.

    The bytes depend on the rows and their order only, not on the chunks that the table was put together from.
    """
    import pyarrow.parquet as pq

    with atomic_path(path, data.nbytes) as part, pq.ParquetWriter(part, data.schema, compression="zstd") as writer:
        for start in range(0, max(data.num_rows, 1), ROWS_PER_GROUP):
            writer.write_table(data.slice(start, ROWS_PER_GROUP).combine_chunks(), row_group_size=ROWS_PER_GROUP)


def write_table(path: Path, table: str, rows: Sequence[Mapping[str, Any]], factors: tuple[str, ...] = ()) -> None:
    """Write `rows` as the table's parquet file: see `to_arrow` and `write_arrow`."""
    write_arrow(path, to_arrow(table, rows, factors))


def _check_nulls(data: pa.Table) -> None:
    for field in data.schema:
        if not field.nullable and data[field.name].null_count:
            raise ValueError(f"column {field.name} holds {data[field.name].null_count} nulls")


def read_table(path: Path, table: str) -> pd.DataFrame:
    """Read a table as a pandas frame; a missing or foreign file raises DataError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise DataError(f"{path} is not there", "loadbook ingest STUDY")
    try:
        data = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} is not a readable table: {error}", "loadbook ingest STUDY rebuilds it") from error
    missing = [name for name in TABLES[table] if name not in data.schema.names]
    if missing:
        raise DataError(f"{path} lacks the columns {', '.join(missing)}", "loadbook ingest STUDY rebuilds it")
    return data.to_pandas()
