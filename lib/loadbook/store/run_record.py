"""run.json: time, hosts, versions, prices and lab of a run, and how often it was resumed."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from typing_extensions import TypedDict

from loadbook.core.errors import DataError
from loadbook.store.paths import RunPaths
from loadbook.store.schema import SCHEMA_VERSION
from loadbook.store.trial_record import RESTORE_HINT, write_json


class _RecordedHost(TypedDict):
    roles: list[str]


class RecordedHost(_RecordedHost, total=False):
    """One host of a run: its roles, the CPUs that everything had there, the rate of its link (Mbit/s)."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    cpus: list[int] | None
    link_mbit: float


class RecordedPrices(TypedDict, total=False):
    """Prices a month by host and by external role, in `currency`."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    currency: str
    hosts: dict[str, float]
    external: dict[str, float]


class ImportSource(TypedDict, total=False):
    """Where an imported run comes from: names of the folder and of the file of conditions, when it was imported.

    `timed` tells whether the times of its trials are known.
    """

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    at: float
    timed: bool
    folder: str
    conditions: str


class RunRecord(BaseModel):
    """The content of run.json; fields that older versions of loadbook did not record have defaults.

    Attributes
    ----------
    started, ended : epoch seconds, our clock; `ended` is None while the run is not done.
    git_revision, git_dirty : of the project's folder; None where it is no checkout.
    seed : None where the order was not drawn by loadbook.
    hosts : by alias.
    tool_versions, service_versions : host -> "name version, name version".
    delay : how a delay was made, "kernel" or "userspace"; None: none was asked for.
    lab : kind of the lab, "" or False for other hosts; True stands for the first kind that there was.
    replay : the run that was played back.
    resumed : how often the run was resumed.
    provenance : "imported" for results of others.
    """

    model_config = ConfigDict(extra="allow")

    study: str
    run: str
    subset: str | None = None
    schema_version: int = SCHEMA_VERSION
    started: float
    ended: float | None = None
    loadbook_version: str
    git_revision: str | None = None
    git_dirty: bool | None = None
    study_sha256: str = ""
    seed: int | None = None
    blocks: int = 0
    hosts: dict[str, RecordedHost]
    prices: RecordedPrices | None = None
    tool_versions: dict[str, str] = {}
    service_versions: dict[str, str] = {}
    delay: str | None = None
    lab: bool | str = False
    replay: str | None = None
    resumed: int = 0
    provenance: str | None = None
    imported: ImportSource | None = None

    @property
    def lab_kind(self) -> str:
        """Kind of the lab, "" for other hosts."""
        return "loopback" if self.lab is True else self.lab or ""

    def to_json(self) -> dict[str, Any]:
        """Return the content of run.json: what was given or read, so that writing a record again changes nothing."""
        return self.model_dump(mode="json", exclude_unset=True)


def read_run_record(paths: RunPaths) -> RunRecord:
    """Read run.json; DataError if it is missing or no record of a run."""
    try:
        return RunRecord.model_validate_json(paths.run_json.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{paths.run_json} is not there", RESTORE_HINT) from None
    except ValueError as error:  # ValidationError among them
        found = error.errors()[:3] if isinstance(error, ValidationError) else []
        reason = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in found) or str(error)
        raise DataError(f"{paths.run_json} is no record of a run: {reason}", RESTORE_HINT) from error


def write_run_record(paths: RunPaths, record: RunRecord) -> None:
    """Write run.json, whole or not at all."""
    write_json(paths.run_json, record.to_json())
