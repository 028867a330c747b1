"""The requests of a trial one by one: its drivers' logs (JTL, h2load's log, ab's -g) -> one parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loadbook.core.errors import ParseError
from loadbook.records.manifest import DriverRecord, TrialRecord
from loadbook.tools import h2load_log, jmeter_results
from loadbook.tools.base import ToolOutput


def write_requests(folder: Path, record: TrialRecord, target: Path) -> ParseError | None:
    """Write `target` from the logs in a trial's folder: no file where there are none, or one that cannot be read.

    h2load appends its log to that of the warm-up: rows that began before its process did are left out.
    """
    logs = [(driver, folder / name) for driver in record.drivers for name in _request_logs(record.tool, driver)]
    if not logs:
        return None
    from loadbook.requests.api import read_batches  # imports pyarrow
    from loadbook.requests.store import RequestWriter

    try:
        with RequestWriter(target) as store:
            for driver, path in logs:
                properties = jmeter_results.command_properties(ToolOutput(b"", argv=tuple(driver.argv)))
                for batch in read_batches(path, record.tool, properties=properties):
                    since = driver.started_host if record.tool == "h2load" else None
                    store.write(batch.started_since(since), driver.host)
    except ParseError as error:
        return error
    return None


def _request_logs(tool: str, driver: DriverRecord) -> Iterator[str]:
    """Yield the name under which a driver's log of requests was kept, if it wrote one."""
    if tool == "jmeter":
        named = [name for name in driver.files if name.endswith(".jtl")]
        yield driver.files[jmeter_results.RESULTS_FILE if len(named) > 1 else named[0]] if named else driver.stdout
    argv = tuple(driver.argv)
    requested = {
        "h2load": h2load_log.log_file_name(argv),
        "ab": argv[argv.index("-g") + 1].rpartition("/")[2] if "-g" in argv[:-1] else None,
    }
    if (name := requested.get(tool)) and name in driver.files:
        yield driver.files[name]
