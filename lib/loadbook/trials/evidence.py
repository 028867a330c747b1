"""What a trial keeps as evidence: the page's answer, the configuration proven to be live."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from loadbook.core.errors import HostTimeoutError, LoadbookError, UnreachableError
from loadbook.design.workload import Workload
from loadbook.hosts.host import Host
from loadbook.records.atomic import room
from loadbook.records.manifest import ResponseRecord, ServiceRecord
from loadbook.services import Instance, Proof
from loadbook.tools.base import Target
from loadbook.trials.stage import Seat

ASK_S = 10.0


class InvalidTrial(LoadbookError):  # noqa: N818 - it is what the trial is, named by its status
    """Server or load is not what the study says; trying again would not help."""


def ask(host: Host, target: Target, path: str) -> ResponseRecord:
    """Ask for the page once, as a driver sees it; InvalidTrial when the host is there but nothing answers it."""
    try:
        answer = host.http_get(target.address, target.port, path, timeout_s=ASK_S, scheme=target.scheme)
    except (UnreachableError, HostTimeoutError) as error:
        host.run(["true"], timeout_s=ASK_S)
        raise InvalidTrial(error.message, "the service's log is in the trial's folder") from error
    return ResponseRecord(
        status=answer.status,
        bytes=len(answer.body),
        sha256=hashlib.sha256(answer.body).hexdigest(),
        server=answer.headers.get("server"),
    )


def wrong_answer(work: Workload, answer: ResponseRecord) -> str | None:
    """Return what is wrong with an answer, None when it has the status and size that the workload expects."""
    wanted = (work.expect_status, answer.bytes if work.expect_bytes is None else work.expect_bytes)
    if (answer.status, answer.bytes) == wanted:
        return None
    return f"{work.path} answered {answer.status} with {answer.bytes} bytes, not {wanted[0]} with {wanted[1]}"


def service_record(
    seat: Seat, instance: Instance, proof: Proof, folder: Path, *, version: str | None, cpus: Sequence[int]
) -> ServiceRecord:
    """Keep a service's rendered files and its own dump in `folder` and return its record."""
    stem = f"{seat.alias}-{seat.role}"
    kept = {f"config-{stem}/{name}": data for name, data in instance.rendered.files.items()}
    dump = {f"effective-{stem}": data for data in [instance.effective()] if data}
    for name, data in (kept | dump).items():
        keep(folder / name, data)
    return ServiceRecord(
        host=seat.alias,
        role=seat.role,
        service=seat.spec.name,
        mode=seat.mode,
        version=version,
        config_sha256=instance.rendered.config_sha256,
        live=proof.live,
        live_evidence=proof.evidence,
        pids=proof.pids,
        config_files=list(kept),
        effective=next(iter(dump), None),
        cpus=list(cpus),
    )


def keep(path: Path, data: bytes) -> None:
    """Write a file of the trial's folder, with the folders above it; nothing for no data."""
    if data:
        with room(path, len(data)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
