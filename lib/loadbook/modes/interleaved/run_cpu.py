"""CPU time that services use outside of their arm's slices, where load generators run on another machine.

On the driver's machine `hosts/interleave.pl` reads it at every slice. On others `hosts/cpu_samples.pl` reads it all the
time, and the readings that lie wholly outside of an arm's slices count.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from loadbook.core.errors import OversizeError
from loadbook.execution.load import FIRST_STEP, STOP_GRACE_S, remove_job
from loadbook.execution.services import ServiceKey, write_trial_file
from loadbook.execution.testbed import Testbed
from loadbook.hosts.jobs import CPU_READINGS_PROGRAM, Job, perl_program_files
from loadbook.hosts.replay import cpu_readings_name
from loadbook.modes.interleaved.read import SliceLog
from loadbook.modes.interleaved.read_outside_cpu import CpuSample, cpu_outside, read_cpu_samples
from loadbook.store.trial_record import ClockRecord

MIN_INTERVAL_S = 0.01  # a reading of 7 services takes 1 ms
MAX_BYTES = 20_000_000


class CpuSamplers:
    """Readings of the CPU time of services; `name` is the name of the job on every host.

    A host without perl has no readings.
    """

    def __init__(self, testbed: Testbed, name: str) -> None:
        self.testbed, self.name = testbed, name
        self._leaders: Mapping[str, Mapping[ServiceKey, int]] = {}
        self._samples: dict[ServiceKey, tuple[str, list[CpuSample]]] = {}

    def start(self, leaders: Mapping[str, Mapping[ServiceKey, int]], slice_s: float, limit_s: float) -> None:
        """Start reading twice in a slice, for at most `limit_s` seconds.

        `leaders`: host -> service -> leading process of the service.
        """
        self._leaders = leaders
        programs, interval_s = perl_program_files(CPU_READINGS_PROGRAM), max(MIN_INTERVAL_S, slice_s / 2)

        def start(alias: str) -> None:
            pids = [str(pid) for pid in leaders[alias].values()]
            step = ("perl", CPU_READINGS_PROGRAM, f"{interval_s:g}", f"{limit_s:g}", *pids)
            self.testbed.hosts[alias].start(Job(self.name, (step,), limit_s * 1.5 + 5, programs))

        self.testbed.map(start, leaders)

    def collect(self, folder: Path) -> None:
        """Stop reading, and fetch the readings of each host into a trial's folder."""

        def collect(alias: str) -> list[list[CpuSample]]:
            host, services = self.testbed.hosts[alias], len(self._leaders[alias])
            host.stop(self.name, grace_s=STOP_GRACE_S)
            with suppress(OversizeError, ValueError):
                output = host.get(f"{host.workdir}/jobs/{self.name}/stdout.{FIRST_STEP}", max_bytes=MAX_BYTES)
                write_trial_file(folder / cpu_readings_name(alias), output)
                return read_cpu_samples(output.decode(errors="replace"), services)
            return [[] for _ in range(services)]

        for alias, samples in self.testbed.map(collect, self._leaders).items():
            self._samples |= {key: (alias, own) for key, own in zip(self._leaders[alias], samples, strict=True)}

    def outside_cpu_s(
        self, arm: int, slices: SliceLog, gap_s: float, driver: str, clocks: Mapping[str, ClockRecord]
    ) -> float | None:
        """Return the CPU seconds that an arm's services used outside its slices and the gaps after them.

        None if too few readings lie there. `driver` is the host whose `slices` these are.
        """
        own = slices.slices_of(arm)
        of_arm = [samples for (of, _), samples in self._samples.items() if of == arm]
        if not own or not of_arm:
            return None
        used_per_s = 0.0
        for alias, samples in of_arm:
            # from the host's wall clock to the driver's, then to the monotonic clock of the slices
            to_driver_s = clocks[driver].offset_before_s - clocks[alias].offset_before_s - slices.clock_offset_s
            margin_s = (clocks[driver].rtt_before_s + clocks[alias].rtt_before_s) / 2
            moved = [CpuSample(t_s + to_driver_s, cpu_s) for t_s, cpu_s in samples]
            share = cpu_outside(moved, [(turn.start_s, turn.end_s + gap_s) for turn in own], margin_s)
            if share is None:
                return None
            used_per_s += share
        outside_s = slices.slices[-1].end_s - slices.slices[0].start_s - sum(turn.length_s + gap_s for turn in own)
        return round(max(0.0, used_per_s * outside_s), 6)

    def end(self) -> None:
        """Stop reading and remove the files on the hosts."""
        self.testbed.map(lambda alias: remove_job(self.testbed.hosts[alias], self.name, STOP_GRACE_S), self._leaders)
