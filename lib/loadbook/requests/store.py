"""Rows of per-request logs as parquet (docs/data-format.md, `requests`): written while they are read, whole or not."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadbook.records.atomic import appearing
from loadbook.requests.arrow import TEXT, dictionary, from_numpy
from loadbook.requests.rows import ENDS, Batch, Ints, Kind

SCHEMA_VERSION = 1
SCHEMA = pa.schema(
    [
        pa.field("driver", TEXT, nullable=False),
        pa.field("start_us", pa.int64()),
        pa.field("elapsed_us", pa.int64(), nullable=False),
        pa.field("label", TEXT, nullable=False),
        pa.field("kind", TEXT, nullable=False),
        pa.field("outcome", TEXT, nullable=False),
        pa.field("answered", pa.bool_(), nullable=False),
        pa.field("status", pa.int16()),
        pa.field("received", pa.int64()),
        pa.field("first_byte_us", pa.int64()),
        pa.field("samples", pa.int64()),
        pa.field("failed", pa.int64()),
    ],
    metadata={"loadbook_requests_schema": str(SCHEMA_VERSION)},
)
KINDS = [kind.name.lower() for kind in Kind]
# times of day grow: differences are small; the rest takes few distinct values
_STAMPS = "start_us"


class Store:
    """A parquet file of requests; leave the `with` block by an error, and there is none."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, 0

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            part = opened.enter_context(appearing(self.path))
            self._writer = opened.enter_context(
                pq.ParquetWriter(
                    part,
                    SCHEMA,
                    compression="snappy",
                    use_dictionary=[name for name in SCHEMA.names if name not in (_STAMPS, "answered")],
                    write_statistics=[_STAMPS, "elapsed_us"],
                    column_encoding={_STAMPS: "DELTA_BINARY_PACKED"},
                )
            )
            self._opened = opened.pop_all()
        return self

    def write(self, batch: Batch, driver: str = "") -> None:
        """Add the rows of one batch."""
        if len(batch):
            self._writer.write_table(table(batch, driver), row_group_size=len(batch))
            self.rows += len(batch)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)


def table(batch: Batch, driver: str = "") -> pa.Table:
    """Return a batch as a table of SCHEMA: times in us, and null for what the log does not tell."""
    numbered = {"kind": (batch.kind, KINDS), "outcome": (batch.outcome, ENDS), "label": (batch.label, batch.labels)}
    columns = {
        "driver": dictionary(np.zeros(len(batch), np.int32), [driver]),
        "start_us": _optional(batch.start_us, 1, len(batch)),
        "elapsed_us": _optional(batch.elapsed, batch.tick_us, len(batch)),
        **{name: dictionary(*column) for name, column in numbered.items()},
        "answered": from_numpy(batch.answered),
        "status": from_numpy(batch.status, batch.status != 0),
        "received": _optional(batch.received, 1, len(batch)),
        "first_byte_us": _optional(batch.first_byte, batch.tick_us, len(batch)),
        "samples": _optional(batch.samples, 1, len(batch)),
        "failed": _optional(batch.failed, 1, len(batch)),
    }
    return pa.table(columns, schema=SCHEMA)


def _optional(values: Ints | None, factor: int, size: int) -> pa.Array:
    if values is None:
        return pa.nulls(size, pa.int64())
    return from_numpy(values * factor if factor != 1 else values)
