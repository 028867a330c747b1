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
from loadbook.execution.testbed import Testbed
from loadbook.hosts.host import Host, Job
from loadbook.modes.shared.spec import SCHEDULE_FILE, TurnLengths, draw_turns
from loadbook.store.trial_record import ClockRecord, DriverRecord
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import MAX_REPORT_BYTES
from loadbook.tools.shared_load import PART_FILE, shared_files


class SharedLoad(ArmsLoad):
    """The load jobs of one shared block, by the `lengths` of its turns; `all_arms` is the number of treatments.

    A treatment that fails before the load leaves the rate of the others as it is.
    """

    def __init__(self, testbed: Testbed, name: str, lengths: TurnLengths, all_arms: int) -> None:
        super().__init__(testbed, name)
        self.lengths, self.all_arms = lengths, all_arms

    def run(self, arms: Arms, clocks: Mapping[str, ClockRecord]) -> None:
        """Run the job on every driver; outputs stay on the drivers until they are collected.

        `clocks` are those by which several drivers start at one instant.
        """
        first, by_request = next(iter(arms.values())), self.lengths.slice_s is None
        duration_s, rate_per_s = first.workload.duration_s, first.workload.rate_per_s
        assert rate_per_s is not None
        self.planned_s = (self.all_arms if by_request else len(arms)) * duration_s
        self.active_s = self.planned_s if by_request else duration_s
        self.own_rate_per_s = rate_per_s / self.all_arms if by_request else rate_per_s
        self.rate_share = len(arms) / self.all_arms if by_request else 1.0
        self.testbed.on_phase("load", self.planned_s)
        lead_s, start_times = common_start(self.testbed.drivers, clocks)
        timeout_s = lead_s + self.planned_s + first.workload.timeout_s + first.load.tool.extra_timeout_s + GRACE_S
        self.schedules: dict[str, bytes] = {}
        self.commands: dict[str, tuple[str, ...]] = {}
        jobs: dict[str, Job] = {}
        for host in self.drivers:
            files = self._files(arms, host)
            self.schedules[host.alias] = files[SCHEDULE_FILE]
            self.commands[host.alias] = step = self._command(arms, host.alias)
            at = start_times.get(host.alias)
            jobs[host.alias] = Job(self.name, (step,), timeout_s + LEASE_EXTRA_S, files, last_step_at=at)
        for attempt in arms.values():
            attempt.load.started |= {host.alias: (clock.now(), clock.monotonic()) for host in self.drivers}
        self.run_jobs(jobs, timeout_s, lead_s + self.planned_s)

    def _share(self, attempt: Attempt, alias: str) -> Workload:
        """Return the load of all arms on a driver."""
        share = attempt.load.shares[alias]
        assert share.rate_per_s is not None
        return share.model_copy(update={"rate_per_s": share.rate_per_s * self.rate_share})

    def _files(self, arms: Arms, host: Host) -> dict[str, bytes]:
        """Return the files of a driver's job: the targets of all arms and their turns."""
        first = next(iter(arms.values()))
        share = self._share(first, host.alias)
        urls = {arm: base.target_url(attempt.deployment.target, attempt.workload.path) for arm, attempt in arms.items()}
        # slices of all drivers are drawn alike, so that they are those of the same arm; requests are not
        seed = f"loadbook turns {self.testbed.plan.seed} {first.planned.block}"
        seed += f" {host.alias}" if self.lengths.slice_s is None else ""
        assert share.rate_per_s is not None
        turns = draw_turns(list(arms), self.lengths, share.rate_per_s * self.planned_s / len(arms), seed)
        return shared_files(urls, turns) | dict(first.load.tool.shared_files(share))

    def _command(self, arms: Arms, alias: str) -> tuple[str, ...]:
        """Return the command of a driver's generator, which uses TLS if an arm does."""
        first, targets = next(iter(arms.values())), [attempt.deployment.target for attempt in arms.values()]
        target = max(targets, key=lambda one: one.scheme == "https")
        argv = first.load.tool.shared_command(self._share(first, alias), target, self.planned_s)
        return first.load.launch.wrap(tuple(argv))

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
            argv=list(self.commands[alias]),
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
