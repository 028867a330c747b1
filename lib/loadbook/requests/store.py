"""Rows of per-request logs as parquet (docs/data-format.md, `requests`): written while they are read, whole or not."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadbook.records.atomic import atomic_path
from loadbook.requests.arrow import TEXT_TYPE, dictionary_array, from_numpy
from loadbook.requests.rows import OUTCOME_NAMES, RequestBatch, Ints, LogRowKind

SCHEMA_VERSION = 1
SCHEMA = pa.schema(
    [
        pa.field("driver", TEXT_TYPE, nullable=False),
        pa.field("start_us", pa.int64()),
        pa.field("elapsed_us", pa.int64(), nullable=False),
        pa.field("label", TEXT_TYPE, nullable=False),
        pa.field("kind", TEXT_TYPE, nullable=False),
        pa.field("outcome", TEXT_TYPE, nullable=False),
        pa.field("answered", pa.bool_(), nullable=False),
        pa.field("status", pa.int16()),
        pa.field("received", pa.int64()),
        pa.field("first_byte_us", pa.int64()),
        pa.field("samples", pa.int64()),
        pa.field("failed", pa.int64()),
    ],
    metadata={"loadbook_requests_schema": str(SCHEMA_VERSION)},
)
KIND_NAMES = [kind.name.lower() for kind in LogRowKind]
# times of day grow: differences are small; the rest takes few distinct values
_START_COLUMN = "start_us"


class RequestWriter:
    """A parquet file of requests; leave the `with` block by an error, and there is none."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            part = stack.enter_context(atomic_path(self.path))
            self._writer = stack.enter_context(
                pq.ParquetWriter(
                    part,
                    SCHEMA,
                    compression="snappy",
                    use_dictionary=[name for name in SCHEMA.names if name not in (_START_COLUMN, "answered")],
                    write_statistics=[_START_COLUMN, "elapsed_us"],
                    column_encoding={_START_COLUMN: "DELTA_BINARY_PACKED"},
                )
            )
            self._exit_stack = stack.pop_all()
        return self

    def write(self, batch: RequestBatch, driver: str = "") -> None:
        """Add the rows of one batch."""
        if len(batch):
            self._writer.write_table(to_table(batch, driver), row_group_size=len(batch))
            self.rows += len(batch)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit_stack.__exit__(kind, error, trace)


def to_table(batch: RequestBatch, driver: str = "") -> pa.Table:
    """Return a batch as a table of SCHEMA: times in us, and null for what the log does not tell."""
    numbered = {"kind": (batch.kind, KIND_NAMES), "outcome": (batch.outcome, OUTCOME_NAMES), "label": (batch.label, batch.labels)}
    columns = {
        "driver": dictionary_array(np.zeros(len(batch), np.int32), [driver]),
        "start_us": _nullable_column(batch.start_us, 1, len(batch)),
        "elapsed_us": _nullable_column(batch.elapsed, batch.tick_us, len(batch)),
        **{name: dictionary_array(*column) for name, column in numbered.items()},
        "answered": from_numpy(batch.answered),
        "status": from_numpy(batch.status, batch.status != 0),
        "received": _nullable_column(batch.received, 1, len(batch)),
        "first_byte_us": _nullable_column(batch.first_byte, batch.tick_us, len(batch)),
        "samples": _nullable_column(batch.samples, 1, len(batch)),
        "failed": _nullable_column(batch.failed, 1, len(batch)),
    }
    return pa.table(columns, schema=SCHEMA)


def _nullable_column(values: Ints | None, factor: int, size: int) -> pa.Array:
    if values is None:
        return pa.nulls(size, pa.int64())
    return from_numpy(values * factor if factor != 1 else values)
