"""Load of a shared block on its drivers: on each of them one load generator that sends the requests of all arms."""

from __future__ import annotations

from collections.abc import Mapping

from loadbook.core import clock
from loadbook.execution.arms_load import Arms, ArmsLoad
from loadbook.execution.attempt import Attempt
from loadbook.execution.load import (
    FIRST_STEP,
    GRACE_S,
    LEASE_EXTRA_S,
    common_start,
    fetch_tool_files,
    fetch_truncated,
    read_step_times,
)
from loadbook.execution.services import write_trial_file
from loadbook.hosts.host import Host, Job
from loadbook.modes.shared.spec import SCHEDULE_FILE, TurnLengths, active_s, draw_turns
from loadbook.store.trial_record import ClockRecord, DriverRecord
from loadbook.tools import base
from loadbook.tools.base import MAX_REPORT_BYTES
from loadbook.tools.shared_load import PART_FILE, shared_files


class SharedLoad(ArmsLoad):
    """The load jobs of one shared block, by `lengths` of its turns."""

    def run(self, arms: Arms, lengths: TurnLengths, clocks: Mapping[str, ClockRecord]) -> None:
        """Run the job on every driver; outputs stay on the drivers until they are collected.

        `clocks` are those by which several drivers start at one instant.
        """
        first = next(iter(arms.values()))
        self.planned_s = len(arms) * first.workload.duration_s
        self.testbed.on_phase("load", self.planned_s)
        self.active_s = active_s(lengths, len(arms), first.workload.duration_s)
        lead_s, start_times = common_start(self.testbed.drivers, clocks)
        timeout_s = lead_s + self.planned_s + first.workload.timeout_s + first.load.tool.extra_timeout_s + GRACE_S
        self.schedules: dict[str, bytes] = {}
        jobs: dict[str, Job] = {}
        for host in self.drivers:
            files = self._files(arms, host, lengths)
            self.schedules[host.alias] = files[SCHEDULE_FILE]
            step, at = self._command(first, host.alias), start_times.get(host.alias)
            jobs[host.alias] = Job(self.name, (step,), timeout_s + LEASE_EXTRA_S, files, last_step_at=at)
        for attempt in arms.values():
            attempt.load.started |= {host.alias: (clock.now(), clock.monotonic()) for host in self.drivers}
        self.run_jobs(jobs, timeout_s, lead_s + self.planned_s)

    def _files(self, arms: Arms, host: Host, lengths: TurnLengths) -> dict[str, bytes]:
        """Return the files of a driver's job: the targets of all arms and their turns."""
        first = next(iter(arms.values()))
        share = first.load.shares[host.alias]
        assert share.rate_per_s is not None
        urls = {arm: base.target_url(attempt.deployment.target, attempt.workload.path) for arm, attempt in arms.items()}
        # slices of all drivers are drawn alike, so that they are those of the same arm; requests are not
        seed = f"loadbook turns {self.testbed.plan.seed} {first.planned.block}"
        seed += "" if lengths.slice_s is not None else f" {host.alias}"
        turns = draw_turns(list(arms), lengths, share.rate_per_s, share.duration_s, seed)
        return shared_files(urls, turns) | dict(first.load.tool.shared_files(share))

    def _command(self, attempt: Attempt, alias: str) -> tuple[str, ...]:
        """Return the command of a driver's generator."""
        share = attempt.load.shares[alias]
        argv = attempt.load.tool.shared_command(share, attempt.deployment.target, self.planned_s)
        return attempt.load.launch.wrap(tuple(argv))

    def collect(self, arm: int, attempt: Attempt) -> list[DriverRecord]:
        """Copy one arm's results, and the outputs of every driver's generator, into the arm's folder."""
        records = self.testbed.map(lambda alias: self._collect_from(arm, attempt, alias), self.testbed.drivers)
        return list(records.values())

    def _collect_from(self, arm: int, attempt: Attempt, alias: str) -> DriverRecord:
        host, tool, folder = self.testbed.hosts[alias], attempt.load.tool, attempt.folder
        job = f"{host.workdir}/jobs/{self.name}"
        code = host.get(f"{job}/rc.{FIRST_STEP}", max_bytes=100).strip()
        record = DriverRecord(
            host=alias,
            argv=list(self._command(attempt, alias)),
            rc=int(code) if code else None,
            started_ours=attempt.load.started[alias][0],
            ended_ours=clock.now(),
            stdout=f"stdout-{alias}",
            stderr=f"stderr-{alias}",
        )
        record.started_host, record.ended_host = read_step_times(host, f"{job}/times.{FIRST_STEP}")
        for stream in ("stdout", "stderr"):
            name = f"{stream}-{alias}"
            record.cut |= fetch_truncated(host, f"{job}/{stream}.{FIRST_STEP}", folder / name, MAX_REPORT_BYTES)
        timed = attempt.load.shares[alias].model_copy(update={"request_times": True})
        names = (*tool.expected_files(timed), PART_FILE)
        fetch_tool_files(host, f"{job}/arm{arm}", names, folder, record)
        record.files[SCHEDULE_FILE] = f"{alias}-{SCHEDULE_FILE}"
        write_trial_file(folder / record.files[SCHEDULE_FILE], self.schedules[alias])
        return record
