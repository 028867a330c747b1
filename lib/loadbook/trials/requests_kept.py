"""The requests of a trial one by one: its drivers' logs (JTL, h2load's log, ab's -g) -> one parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loadbook.core.errors import ParseError
from loadbook.records.manifest import DriverRecord, TrialRecord
from loadbook.tools import h2load_log, jmeter_results
from loadbook.tools.base import Captured


def keep(folder: Path, record: TrialRecord, target: Path) -> ParseError | None:
    """Write `target` from the logs in a trial's folder: no file where there are none, or one that cannot be read.

    h2load appends its log to that of the warm-up: rows that began before its process did are left out.
    """
    logs = [(driver, folder / name) for driver in record.drivers for name in _log(record.tool, driver)]
    if not logs:
        return None
    from loadbook.requests.api import batches  # imports pyarrow
    from loadbook.requests.store import Store

    try:
        with Store(target) as store:
            for driver, path in logs:
                given = jmeter_results.properties(Captured(b"", argv=tuple(driver.argv)))
                for batch in batches(path, record.tool, properties=given):
                    since = driver.started_host if record.tool == "h2load" else None
                    store.write(batch.since(since), driver.host)
    except ParseError as error:
        return error
    return None


def _log(tool: str, driver: DriverRecord) -> Iterator[str]:
    """Yield the name under which a driver's log of requests was kept, if it wrote one."""
    if tool == "jmeter":
        named = [name for name in driver.files if name.endswith(".jtl")]
        yield driver.files[jmeter_results.RESULTS if len(named) > 1 else named[0]] if named else driver.stdout
    argv = tuple(driver.argv)
    asked = {
        "h2load": h2load_log.name(argv),
        "ab": argv[argv.index("-g") + 1].rpartition("/")[2] if "-g" in argv[:-1] else None,
    }
    if (name := asked.get(tool)) and name in driver.files:
        yield driver.files[name]
