"""What a trial keeps as evidence: the page's answer, the configuration proven to be live."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from loadbook.core.errors import HostTimeoutError, LoadbookError, UnreachableError
from loadbook.design.workload import Workload
from loadbook.hosts.host import Host
from loadbook.records.atomic import explain_disk_full
from loadbook.records.manifest import ResponseRecord, ServiceRecord
from loadbook.services import Instance, Proof
from loadbook.tools.base import Target
from loadbook.trials.stage import Placement

PAGE_TIMEOUT_S = 10.0


class InvalidTrialError(LoadbookError):
    """Server or load is not what the study says; trying again would not help."""


def fetch_page(host: Host, target: Target, path: str) -> ResponseRecord:
    """Ask for the page once, as a driver sees it; InvalidTrialError when the host is there but nothing answers it."""
    try:
        response = host.http_get(target.address, target.port, path, timeout_s=PAGE_TIMEOUT_S, scheme=target.scheme)
    except (UnreachableError, HostTimeoutError) as error:
        host.run(["true"], timeout_s=PAGE_TIMEOUT_S)
        raise InvalidTrialError(error.message, "the service's log is in the trial's folder") from error
    return ResponseRecord(
        status=response.status,
        bytes=len(response.body),
        sha256=hashlib.sha256(response.body).hexdigest(),
        server=response.headers.get("server"),
    )


def response_problem(workload: Workload, response: ResponseRecord) -> str | None:
    """Return what is wrong with an answer, None when it has the status and size that the workload expects."""
    expected = (workload.expect_status, response.bytes if workload.expect_bytes is None else workload.expect_bytes)
    if (response.status, response.bytes) == expected:
        return None
    return f"{workload.path} answered {response.status} with {response.bytes} bytes, not {expected[0]} with {expected[1]}"


def service_record(
    placement: Placement, instance: Instance, proof: Proof, folder: Path, *, version: str | None, cpus: Sequence[int]
) -> ServiceRecord:
    """Keep a service's rendered files and its own dump in `folder` and return its record."""
    stem = f"{placement.alias}-{placement.role}"
    files = {f"config-{stem}/{name}": data for name, data in instance.rendered.files.items()}
    dump = {f"effective-{stem}": data for data in [instance.effective_config()] if data}
    for name, data in (files | dump).items():
        write_trial_file(folder / name, data)
    return ServiceRecord(
        host=placement.alias,
        role=placement.role,
        service=placement.spec.name,
        mode=placement.mode,
        version=version,
        config_sha256=instance.rendered.config_sha256,
        live=proof.live,
        live_evidence=proof.evidence,
        pids=proof.pids,
        config_files=list(files),
        effective=next(iter(dump), None),
        cpus=list(cpus),
    )


def write_trial_file(path: Path, data: bytes) -> None:
    """Write a file of the trial's folder, with the folders above it; nothing for no data."""
    if data:
        with explain_disk_full(path, len(data)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
