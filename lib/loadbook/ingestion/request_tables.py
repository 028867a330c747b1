"""Tables of single requests, one for each trial, from the request logs that its load generators wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loadbook.core.errors import ParseError
from loadbook.store.trial_record import DriverRecord, TrialRecord
from loadbook.tools import h2load, jmeter, k6, vegeta
from loadbook.tools.base import ToolOutput


def write_requests(folder: Path, record: TrialRecord, target: Path) -> ParseError | None:
    """Write `target` (Parquet) from the request logs in a trial's folder; return the error if a log is not readable.

    No file is written then, or if there is no log; the result is None if there was no error.

    h2load appends to the log of the warm-up: rows from before the measuring process are left out.
    """
    logs = [(driver, folder / name) for driver in record.drivers for name in _request_logs(record.tool, driver)]
    if not logs:
        return None
    from loadbook.request_logs.read import RequestWriter, read_batches

    try:
        with RequestWriter(target) as store:
            for driver, path in logs:
                properties = jmeter.command_properties(ToolOutput(b"", argv=tuple(driver.argv)))
                for batch in read_batches(path, record.tool, properties=properties):
                    since = driver.started_host if record.tool == "h2load" else None
                    store.write(batch.started_since(since), driver.host)
    except ParseError as error:
        return error
    return None


def _request_logs(tool: str, driver: DriverRecord) -> Iterator[str]:
    """Yield the names of a driver's request logs."""
    if tool == "jmeter":
        named = [name for name in driver.files if name.endswith(".jtl")]
        yield driver.files[jmeter.RESULTS_FILE if len(named) > 1 else named[0]] if named else driver.stdout
    argv = tuple(driver.argv)
    requested = {
        "h2load": h2load.log_file_name(argv),
        "vegeta": vegeta.RESULTS_FILE,
        "k6": k6.POINTS_FILE,
        "ab": argv[argv.index("-g") + 1].rpartition("/")[2] if "-g" in argv[:-1] else None,
    }
    if (name := requested.get(tool)) and name in driver.files:
        yield driver.files[name]
