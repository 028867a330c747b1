"""The door: one call reads a per-request log of any tool as a stream and returns exact figures.

>>> from pathlib import Path
>>> from loadbook.requests.api import summarise
>>> figures = summarise(Path("out.jtl"), "jmeter")                    # doctest: +SKIP
>>> figures.total().answered, figures.duration_s                       # doctest: +SKIP
>>> {label: t.latency.percentile_s(99) for label, t in figures.labels.items() if t.latency.count}  # doctest: +SKIP
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from loadbook.core.errors import ToolError
from loadbook.requests import jtl_csv, jtl_xml
from loadbook.requests.rows import RequestBatch
from loadbook.requests.store import RequestWriter
from loadbook.requests.summary import Summary
from loadbook.requests.tables import AB_LOG, H2LOAD_LOG, LineLogFormat

BUFFER_BYTES = 1 << 16


def read_batches(
    source: Path | bytes,
    tool: str,
    *,
    file: str | None = None,
    properties: Mapping[str, str] | None = None,
    start: int = 0,
) -> Iterator[RequestBatch]:
    """Yield the rows of a per-request log in the order of the file; arguments and errors as for `summarise`."""
    name = file or (source.name if isinstance(source, Path) else "results")
    raw: Any = source.open("rb", buffering=0) if isinstance(source, Path) else io.BytesIO(source)
    raw.seek(start)
    with io.BufferedReader(raw, BUFFER_BYTES) as stream:
        if tool == "jmeter":
            yield from _jtl_reader(stream)(stream, name, properties)
        else:
            yield from _line_log_format(tool).read(stream, name)


def _jtl_reader(stream: io.BufferedReader) -> Callable[[io.BufferedReader, str, Mapping[str, str] | None], Iterator[RequestBatch]]:
    """Return the reader of a JTL: what begins like XML is XML."""
    head = stream.peek(64).removeprefix(jtl_csv.BOM).lstrip()
    return jtl_xml.read_jtl_xml if head.startswith(b"<") else jtl_csv.read_jtl_csv


def _line_log_format(tool: str) -> LineLogFormat:
    for log in (H2LOAD_LOG, AB_LOG):
        if log.tool == tool:
            return log
    raise ToolError(f"tool {tool} writes no per-request log that is read", "jmeter, h2load and ab do")


def summarise(
    source: Path | bytes,
    tool: str,
    *,
    file: str | None = None,
    properties: Mapping[str, str] | None = None,
    store: RequestWriter | None = None,
    driver: str = "",
    start: int = 0,
) -> Summary:
    """Read a log once and return its figures; see `summary.Summary`, whose `merge` adds files and drivers.

    Parameters
    ----------
    source : the file, or its bytes.
    tool : `jmeter` (CSV or XML, told apart by content), `h2load` (--log-file) or `ab` (-g).
    file : its name in messages; the path's by default.
    properties : JMeter properties as given to the run (`-J`, names without it), None where they are not known: a CSV
        without a header is then read only in the twelve columns of 2.x.
    store : parquet that takes the rows too, open; one may take the logs of several drivers, one after the other.
    driver : whose log it is, for the store.
    start : bytes at its beginning that are left out: whole lines of an earlier run.

    Raises
    ------
    ParseError : not such a log, or a row that is none: tool, file, line. Never zeros for a log that is not there; a
        header without rows is a log of no requests.
    """
    summary = Summary()
    for batch in read_batches(source, tool, file=file, properties=properties, start=start):
        summary.add(batch)
        if store is not None:
            store.write(batch, driver)
    return summary
