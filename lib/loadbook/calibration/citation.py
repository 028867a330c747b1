"""The sentence by which a report cites the certificate of its driver."""

from __future__ import annotations

from collections.abc import Sequence

from loadbook.calibration.certificate import Trust, read_certificates
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
            run = min(own[-1].runs.values())  # the id of a run begins with its day
            date = f"{run[:4]}-{run[4:6]}-{run[6:8]}"
            trusted, others = trust_lists(trusts)
            verdict = f"trusted: {join_words(trusted) or 'nothing'}"
            verdict += f"; not trusted: {join_words(others)}" if others else ""
            sentences.append(f"{tool} {version}, calibrated on this driver {date}: {verdict}")
    return "; ".join(sentences) or None


def trust_lists(trusts: Sequence[Trust]) -> tuple[list[str], list[str]]:
    """Return the names of the numbers that may be trusted, and of those that may not with their worst case."""
    trusted, others = [], []
    for trust in trusts:
        name = NUMBER_NAMES.get(trust.metric, f"{trust.statistic} of {METRIC_NAMES.get(trust.metric, trust.metric)}")
        if trust.trusted:
            trusted.append(name)
        elif trust.missing:
            others.append(f"{name} (not told in case {join_words(trust.missing)})")
        else:
            said, true = (value_text(trust.metric, value) for value in (trust.said, trust.true))
            others.append(f"{name} ({said} for {true}, case {trust.case})")
    return trusted, others
