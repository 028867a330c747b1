"""The sentence by which a report cites the certificate of its driver."""

from __future__ import annotations

from collections.abc import Sequence

from loadbook.calibration.certificate import Certificate, Trust, read_certificates
from loadbook.calibration.tables import value_text
from loadbook.core.errors import DataError
from loadbook.core.units import join_words
from loadbook.store.run_record import BEFORE_SUFFIX, MACHINE_FACT
from loadbook.store.tables import RunData

NUMBER_NAMES = {"requests_per_s": "rate", "errors": "errors", "errors_status": "errors"}
METRIC_NAMES = {"latency": "latency", "service_time": "service time", "latency_intended": "latency from intended start"}


def calibration_text(data: RunData) -> str | None:
    """Return the sentence about the newest certificate of the driver and the tools of a run; None without one.

    A certificate is that of the same machine and the same version of a tool. The sentence names a broken certificate.
    """
    roles = {alias: host.roles for alias, host in data.run_record.hosts.items()} if data.run_record else {}
    drivers = [alias for alias, of_host in roles.items() if data.study.workload.role in of_host]
    machines = {data.facts.get(alias + BEFORE_SUFFIX, {}).get(MACHINE_FACT, {}).get("value") for alias in drivers}
    try:
        certificates = [one for one in read_certificates(data.paths.certificates) if {one.machine} == machines]
    except DataError as error:
        return f"not known: {error.message}"
    sentences = []
    for tool, version in dict.fromkeys(zip(data.trials["tool"], data.trials["tool_version"], strict=True)):
        own = [one for one in certificates if one.tools.get(tool) == version]
        trusts = own[-1].of_tool(tool, data.study.workload.model) if own else []
        if trusts:
            sentences.append(f"{tool} {version}, calibrated on this driver {_date(own[-1])}: {_trusts_text(trusts)}")
    return "; ".join(sentences) or None


def _date(certificate: Certificate) -> str:
    """Return the day of a certificate's first run, whose id begins with it."""
    run = min(certificate.runs.values())
    return f"{run[:4]}-{run[4:6]}-{run[6:8]}"


def _trusts_text(trusts: list[Trust]) -> str:
    trusted, others = trust_lists(trusts)
    not_trusted = [f"not trusted: {join_words(others)}"] if others else []
    return "; ".join([f"trusted: {join_words(trusted) or 'nothing'}", *not_trusted])


def trust_lists(trusts: Sequence[Trust]) -> tuple[list[str], list[str]]:
    """Return the names of the numbers that may be trusted, and of those that may not with their worst case."""
    trusted = [_name(trust) for trust in trusts if trust.trusted]
    return trusted, [f"{_name(trust)} ({_contrast(trust)})" for trust in trusts if not trust.trusted]


def _contrast(trust: Trust) -> str:
    if trust.missing:
        return f"not told in case {join_words(trust.missing)}"
    said, true = (value_text(trust.metric, value) for value in (trust.said, trust.true))
    return f"{said} for {true}, case {trust.case}"


def _name(trust: Trust) -> str:
    return NUMBER_NAMES.get(trust.metric, f"{trust.statistic} of {METRIC_NAMES.get(trust.metric, trust.metric)}")
