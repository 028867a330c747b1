"""The certificate of a calibration: numbers of each tool beside the truth, and which of them may be trusted.

A number is trusted if the tool tells it in every case, and the median of its deviations over the blocks is within the
tolerance there:

- rates: 0.5 % of the server's, and the requests that were under way at begin and end;
- errors: one of the server's;
- times: 5 % of the truth, or 1 ms, which is what the driver itself adds; of a maximum, which is one request, 5 ms.

The truth of `latency` and `service_time` is the time that the server held requests; that of `latency_intended` is what
users would have waited (`truth.user_waits_s`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from loadbook.calibration.cases import CASES_BY_NAME, HOLD_S, Case
from loadbook.calibration.truth import STATISTICS, ServerRecord, read_record, user_waits_s
from loadbook.core.errors import DataError
from loadbook.store.atomic import write_atomic
from loadbook.store.trial_record import TrialRecord, read_trial
from loadbook.validity.base import TOTAL

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.store.tables import RunData

RATE_TOLERANCE, ERRORS_TOLERANCE = 0.005, 1
TIME_TOLERANCE, TIME_TOLERANCE_S, MAXIMUM_TOLERANCE_S = 0.05, 0.001, 0.005
RATE, ERRORS = ("requests_per_s", "value"), ("errors", "count")
STATUS_ERRORS = ("errors_status", "count")  # instead of ERRORS, where a tool does not tell all failures together
TIME_METRICS = ("latency", "service_time", "latency_intended")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Reading(_Part):
    """One number of one trial: what the tool said, the truth, and the tolerance, in base units."""

    tool: str
    load_model: Literal["closed", "open"]
    case: str
    block: int
    metric: str
    statistic: str
    said: float
    true: float
    tolerance: float


class Trust(_Part):
    """Whether one number of a tool may be trusted; `case`, `said` and `true` are those of its largest deviation.

    `missing` lists the cases in which the tool does not tell the number.
    """

    tool: str
    load_model: Literal["closed", "open"]
    metric: str
    statistic: str
    trusted: bool
    case: str
    said: float
    true: float
    missing: list[str] = []


class Certificate(_Part):
    """All readings of a calibration of one driver, and which numbers of its tools may be trusted.

    `runs` maps names of studies to ids of runs, `tools` names to versions, `failed` treatments to the reason of a
    trial that failed. `driver` is the host's alias, `machine` the identity of its machine.
    """

    schema_version: Literal[1] = 1
    runs: dict[str, str]
    machine: str
    driver: str
    tools: dict[str, str]
    readings: list[Reading]
    trusts: list[Trust]
    failed: dict[str, str]

    def of_tool(self, tool: str, load_model: str) -> list[Trust]:
        """Return the trust in each number of a tool under one load model, "closed" or "open"."""
        return [trust for trust in self.trusts if (trust.tool, trust.load_model) == (tool, load_model)]


class _Truth(NamedTuple):
    """Truth of one number, and the largest deviation that is accepted."""

    true: float
    tolerance: float


def make_certificate(runs: Sequence[RunData]) -> Certificate:
    """Return the certificate of the runs of a calibration, one per load model; DataError if no trial has numbers."""
    readings: list[Reading] = []
    failed: dict[str, str] = {}
    tools: dict[str, str] = {}
    for data in runs:
        totals = data.measurements[data.measurements["driver"] == TOTAL]
        values = {trial: _values(rows) for trial, rows in totals.groupby("trial")}
        for row in data.trials.to_dict("records"):
            tools[row["tool"]] = row["tool_version"] or "version not known"
            if row["status"] != "ok":
                failed.setdefault(row["treatment"], row["reason"] or row["status"])
                continue
            folder = data.paths.trial(row["trial"])
            readings += trial_readings(read_trial(folder), values.get(row["trial"], {}), _server_record(folder))
    if not readings:
        raise DataError("no trial of the calibration has numbers", "loadbook report, page run quality, has the reasons")
    first = runs[0]
    hosts = first.run_record.hosts if first.run_record else {}
    driver = next(alias for alias, host in hosts.items() if first.study.workload.role in host.roles)
    return Certificate(
        runs={data.study.name: data.run for data in runs},
        machine=str(first.facts.get(f"{driver}-before", {}).get("machine", {}).get("value", "not known")),
        driver=driver,
        tools=dict(sorted(tools.items())),
        readings=readings,
        trusts=list(judge(readings)),
        failed=failed,
    )


def trial_readings(record: TrialRecord, said: Mapping[tuple[str, str], float], server: ServerRecord) -> list[Reading]:
    """Return the numbers of one trial that have a truth; `said` maps (metric, statistic) to the tool's number."""
    case = CASES_BY_NAME[record.treatment.removeprefix(f"{record.tool}-")]
    return [
        Reading(
            tool=record.tool, load_model=case.load_model, case=case.name, block=record.block,
            metric=key[0], statistic=key[1], said=said[key], true=truth.true, tolerance=truth.tolerance,
        )
        for key, truth in _truths(case, server).items()
        if key in said and not (key == STATUS_ERRORS and ERRORS in said)
    ]  # fmt: skip


def _truths(case: Case, server: ServerRecord) -> dict[tuple[str, str], _Truth]:
    """Return (metric, statistic) -> truth of one trial."""
    held_s = server.held_s or {}
    rate_per_s = server.requests / server.span_s
    # requests that are under way at begin and end: of a closed loop all connections, of an open one those of a response
    under_way = case.connections if case.rate_per_s is None else 1 + case.rate_per_s * min(HOLD_S, held_s["p50"])
    truths = {
        RATE: _Truth(rate_per_s, RATE_TOLERANCE * rate_per_s + under_way / server.span_s),
        ERRORS: _Truth(server.errors, ERRORS_TOLERANCE),
        STATUS_ERRORS: _Truth(server.errors, ERRORS_TOLERANCE),
    }
    for metric in TIME_METRICS:
        waits_s = user_waits_s(case, server) if metric == "latency_intended" else None
        for statistic in STATISTICS:
            true = (waits_s or held_s)[statistic]
            least_s = MAXIMUM_TOLERANCE_S if statistic == "max" else TIME_TOLERANCE_S
            truths[metric, statistic] = _Truth(true, max(least_s, TIME_TOLERANCE * true))
    return truths


def judge(readings: Sequence[Reading]) -> Iterator[Trust]:
    """Yield for each number of each tool and load model whether it may be trusted.

    The case shown is the one with the largest median deviation from the truth, as a multiple of the tolerance.
    """
    cases: dict[tuple[str, str], set[str]] = {}
    for reading in readings:
        cases.setdefault((reading.tool, reading.load_model), set()).add(reading.case)

    def number(reading: Reading) -> tuple[str, str, str, str]:
        return reading.tool, reading.load_model, reading.metric, reading.statistic

    for _, of_number in groupby(sorted(readings, key=number), number):
        by_case = [
            list(of_case) for _, of_case in groupby(sorted(of_number, key=lambda one: one.case), lambda one: one.case)
        ]
        typical = [sorted(of_case, key=_deviation)[len(of_case) // 2] for of_case in by_case]
        medians = [median(map(_deviation, of_case)) for of_case in by_case]
        worst = max(range(len(by_case)), key=lambda place: abs(medians[place]))
        shown = typical[worst]
        missing = cases[shown.tool, shown.load_model] - {one.case for one in typical}
        yield Trust(
            tool=shown.tool, load_model=shown.load_model, metric=shown.metric, statistic=shown.statistic,
            trusted=not missing and abs(medians[worst]) <= 1, missing=sorted(missing),
            case=shown.case, said=shown.said, true=shown.true,
        )  # fmt: skip


def _deviation(reading: Reading) -> float:
    """Return the deviation from the truth in tolerances, negative if the tool said less."""
    return (reading.said - reading.true) / reading.tolerance


def _values(rows: pd.DataFrame) -> dict[tuple[str, str], float]:
    return dict(zip(zip(rows["metric"], rows["statistic"], strict=True), rows["value"].astype(float), strict=True))


def _server_record(folder: Path) -> ServerRecord:
    """Return the record in the log of the only service of a trial."""
    logs = sorted(folder.glob("log-*-server"))
    if len(logs) != 1:
        raise DataError(f"{folder}: {len(logs)} logs of the server instead of one")
    return read_record(logs[0])


def write_certificate(certificate: Certificate, path: Path) -> None:
    """Write a certificate as JSON, completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, certificate.model_dump_json(indent=1).encode() + b"\n")


def read_certificates(folder: Path) -> list[Certificate]:
    """Return the certificates (*.json) of a folder by file name, so oldest first; DataError for a broken one."""
    certificates = []
    for path in sorted(folder.glob("*.json")):
        try:
            certificates.append(Certificate.model_validate_json(path.read_bytes()))
        except ValidationError as error:
            raise DataError(
                f"{path} is no certificate: {error.errors()[0]['msg']}", "delete it, or restore it"
            ) from error
    return certificates
