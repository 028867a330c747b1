"""The searches of a block of capacities: which rates are tried, what a probe that does not count leads to, and what is
recorded of a treatment whose capacity was not found."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest

from loadbook.execution.attempt import initial_record
from loadbook.execution.attempt_store import AttemptStore
from loadbook.execution.testbed import Testbed
from loadbook.hosts.inventory import HostEntry, HostsFile
from loadbook.modes.capacity import run as capacity
from loadbook.modes.capacity.run import CapacityBlocks, SearchedArm, _in_folder, _margin_of_times
from loadbook.modes.capacity.spec_search import MAX_MOVES
from loadbook.store.ledger import Ledger
from loadbook.store.paths import RunPaths
from loadbook.store.trial_record import DriverRecord, ProbeRecord
from loadbook.study.plan import make_plan
from loadbook.study.reader import read_study
from loadbook.tools import base

STUDY = """
name = "sustained"
question = "How much load does each sustain?"
baseline = "small"
blocks = 5
[capacity]
within_s = 0.02
{certified}
[workload]
tool = "vegeta"
model = "open"
rate_per_s = 100
duration_s = 5
warmup_s = 0
connections = 8
timeout_s = 1
[roles.driver]
[roles.web]
service = "go-app"
[factors]
slots = {{ levels = [4, 5] }}
[treatments.small]
[treatments.large]
set = {{ slots = 5 }}
"""


class Probing:
    """A probe of a server that sustains the rate that is written down for its treatment.

    `script` has the ends of the next probes: "ok", or a status of one that does not count, "~" before it if transient.
    The first `noisy` probes of a treatment take twice the limit at every rate.
    """

    sustained: ClassVar[dict[str, float]] = {}
    script: ClassVar[list[str]] = []
    tried: ClassVar[list[tuple[str, float]]] = []
    noisy: ClassVar[dict[str, int]] = {}

    def __init__(self, testbed, planned, attempt, folder, load, objective):
        self.record, self.folder, self.retry = initial_record(testbed, planned, attempt), folder, False
        self.rate_per_s, self.treatment = load.rate_per_s, planned.treatment

    def run(self):
        self.tried.append((self.treatment, self.rate_per_s))
        self.record.duration_s = 5.0
        self.record.tool_version = f"at {self.rate_per_s:.6g}"

    def result(self, phase):
        status = self.script.pop(0) if self.script else "ok"
        self.retry = status.startswith("~")
        fields = {"folder": self.folder.name, "phase": phase, "rate_per_s": self.rate_per_s}
        if status != "ok":
            return ProbeRecord(**fields, status=status.lstrip("~"), reason="scripted.")
        margin = math.log(self.sustained[self.treatment] / self.rate_per_s)
        if self.noisy.get(self.treatment, 0):
            self.noisy[self.treatment] -= 1
            margin = -math.log(2)
        return ProbeRecord(**fields, status="ok", margin=margin, missed=None if margin >= 0 else "latency")


@pytest.fixture
def blocks(tmp_path, monkeypatch):
    """Make the runner of blocks, of which `search(block)` gives the trials' records by treatment."""
    monkeypatch.setattr(capacity, "Probe", Probing)
    sustained = {"small": 1000.0, "large": 1300.0}
    for name, value in (("sustained", sustained), ("script", []), ("tried", []), ("noisy", {})):
        monkeypatch.setattr(Probing, name, value)
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        yield lambda certified="", **web: make_blocks(tmp_path, ledger, certified, web)


def make_blocks(folder, ledger, certified, web):
    (folder / "sustained.toml").write_text(STUDY.format(certified=certified))
    plan = make_plan(read_study(folder / "sustained.toml"))
    entries = {"driver": HostEntry(roles=("driver",)), "web": HostEntry(roles=("web",), **web)}
    testbed = Testbed(
        plan=plan, run="r1", lab="", hosts={}, inventory=HostsFile(hosts=entries), drivers=("driver",), placements=(),
        tools={"vegeta": base.load_tool("vegeta")}, pool=ThreadPoolExecutor(1),
    )  # fmt: skip
    printed: list[str] = []
    runner = CapacityBlocks(
        testbed, AttemptStore(testbed, RunPaths(folder, folder), ledger), lambda e: printed.append(e.message)
    )

    def search(number):
        begun = [(planned, *runner.store.begin(planned)) for planned in plan.trials if planned.block == number]
        block = runner.make_block(begun)
        block.run()
        runner.use_results(block)
        return {arm.planned.treatment: arm.record for arm in block.attempts}

    runner.search, runner.printed = search, printed  # type: ignore[attr-defined]
    return runner


def test_first_block_explores_and_later_ones_begin_at_the_capacities_found(blocks):
    runner = blocks()
    found = runner.search(1)
    assert {record.status for record in found.values()} == {"ok"}
    for treatment, sustained in Probing.sustained.items():
        assert found[treatment].capacity.capacity_per_s == pytest.approx(sustained, rel=0.02)
        probes = found[treatment].capacity.probes
        assert [probe.folder for probe in probes] == [f"probe-{k:02}" for k in range(1, len(probes) + 1)]
        assert found[treatment].duration_s == 5.0 * len(probes)
        best = max(probe.rate_per_s for probe in probes if probe.missed is None)
        assert found[treatment].tool_version == f"at {best:.6g}"
    assert {probe.phase for probe in found["small"].capacity.probes} == {"exploration", "search"}
    Probing.tried.clear()
    again = runner.search(2)
    assert {probe.phase for probe in again["large"].capacity.probes} == {"search"}
    assert min(rate for _, rate in Probing.tried) > 750 and max(rate for _, rate in Probing.tried) < 1700
    assert all({name for name, _ in Probing.tried[k : k + 2]} == {"small", "large"} for k in (0, 2, 4))


def test_treatment_that_sustains_no_rate_fails_and_is_not_searched_after_two_blocks(blocks):
    runner = blocks()
    Probing.sustained = {"small": 1000.0, "large": 0.1}
    found = runner.search(1)
    assert found["small"].status == "ok" and found["small"].capacity.capacity_per_s == pytest.approx(1000, rel=0.02)
    failed = found["large"]
    assert (failed.status, failed.capacity.capacity_per_s) == ("invalid", None)
    lowest = min(probe.rate_per_s for probe in failed.capacity.probes)
    assert failed.reason.startswith(f"no rate meets the objective: even {lowest:,g} requests/s missed the objective")
    assert failed.reason.endswith("or other programs used the CPUs: loadbook doctor")
    assert failed.tool_version == f"at {lowest:.6g}"
    rates = [probe.rate_per_s for probe in failed.capacity.probes]
    assert rates.count(100) == 2 and rates.count(lowest) == 2  # it was explored once more
    assert runner.search(2)["large"].reason == failed.reason
    Probing.tried.clear()
    again = runner.search(3)
    assert again["large"].reason == "not searched, as its exploration failed in 2 blocks before"
    assert {name for name, _ in Probing.tried} == {"small"}


@pytest.mark.parametrize(("noisy", "lost"), [(2, []), (3, []), (4, [1]), (6, [1])])
def test_noisy_moment_at_the_begin_costs_a_treatment_one_block_at_most(blocks, noisy, lost):
    """Two probes with like times end an exploration, so a second one begins with the third."""
    runner = blocks()
    Probing.noisy = {"large": noisy}
    found = {number: runner.search(number) for number in (1, 2, 3)}
    assert [number for number, records in found.items() if records["large"].status != "ok"] == lost
    assert all(records["small"].status == "ok" for records in found.values())
    last = found[3]["large"].capacity
    assert last.capacity_per_s == pytest.approx(1300, rel=0.02)
    assert {probe.phase for probe in last.probes} == {"search"}


def test_resumed_run_knows_in_how_many_blocks_an_exploration_failed(blocks):
    runner = blocks()
    Probing.sustained = {"small": 1000.0, "large": 0.1}
    for number in (1, 2):
        for record in runner.search(number).values():
            record.drivers = [DriverRecord(host="driver", argv=["x"], rc=0, stdout="a", stderr="b")]
            runner.store.end(record, runner.store.staging_folder(record.trial, 1), final=True)
    resumed = CapacityBlocks(runner.testbed, runner.store, lambda event: None)
    assert resumed.failed_blocks == runner.failed_blocks == {"large": 2}


def test_treatment_that_sustains_every_rate_says_where_the_exploration_ended(blocks):
    Probing.sustained = {"small": 1e9, "large": 1e9}
    found = blocks().search(1)["small"]
    assert found.status == "invalid"
    assert found.reason.startswith(f"{100 * 1.5**11:,.0f} requests/s met the objective, where the exploration ended")


def test_capacity_far_from_that_of_earlier_blocks_is_a_bound_and_no_estimate(blocks):
    runner = blocks()
    runner.search(1)
    Probing.sustained = {"small": 1000.0, "large": 1e9}
    found = runner.search(2)["large"]
    tried = [probe.rate_per_s for probe in found.capacity.probes]
    assert (found.status, found.capacity.capacity_per_s) == ("invalid", None)
    assert f"every rate from {min(tried):,g} to {max(tried):,g} requests/s met the objective" in found.reason
    assert MAX_MOVES == 3 and found.tool_version == f"at {max(tried):.6g}"


@pytest.mark.parametrize(
    ("ends", "probes", "status"),
    [
        (["invalid", "invalid", "ok"], 3, "ok"),
        (["invalid", "invalid", "invalid"], 3, "invalid"),
        (["timeout", "timeout"], 2, "timeout"),
        (["~lost", "~lost", "~lost"], 3, "lost"),
    ],
)
def test_probe_that_does_not_count_is_repeated_a_few_times(blocks, ends, probes, status):
    runner = blocks("certified_share = 0.5")
    first = next(planned.treatment for planned in runner.testbed.plan.trials)
    Probing.script = list(ends)
    found = runner.search(1)
    (tried,) = [record for record in found.values() if len(record.capacity.probes) == probes]
    assert tried.status == status and tried.capacity.capacity_per_s is None and first in found
    assert [probe.status for probe in tried.capacity.probes] == [end.lstrip("~") for end in ends]
    assert len(Probing.tried) == probes + 1 and {rate for _, rate in Probing.tried} == {100}
    if status != "ok":
        assert tried.reason == "at 100 requests/s: scripted; no rate below it was tried, or none met the objective"


def test_rate_beyond_the_cap_of_a_host_ends_the_search_of_the_treatment(blocks):
    runner = blocks(max_requests_per_s=600)
    found = runner.search(1)
    assert {record.status for record in found.values()} == {"invalid"}
    assert max(rate for _, rate in Probing.tried) <= 600
    assert found["small"].reason.startswith("hosts.web.max_requests_per_s: 600 at most")
    assert found["small"].reason.endswith("; 506.2 requests/s met the objective")


def test_lines_on_probes_say_how_long_requests_took(blocks):
    runner = blocks()
    Probing.script = ["invalid"]
    runner.search(1)
    printed = [line.replace("\u00a0", " ") for line in runner.printed]
    assert printed[0].endswith("100/s does not count: invalid: scripted.")
    assert f"small: 150/s met the objective: 99 % answered within {20 * 0.15:.3g} ms, limit 20 ms" in "\n".join(printed)
    late = next(line for line in printed if "small" in line and "missed" in line)
    assert late.endswith(f"missed the objective: 99 % answered within {20 * 1.139:.3g} ms, limit 20 ms")


def test_line_on_a_probe_with_too_few_answers_says_how_many_of_how_many_came_in_time(blocks, monkeypatch):
    runner, assessed = blocks(), Probing.result

    def too_few(self, phase):
        probe = assessed(self, phase)
        return probe.model_copy(update={"missed": "rate", "share_within": 0.25}) if probe.missed else probe

    monkeypatch.setattr(Probing, "result", too_few)
    runner.search(1)
    line = next(line for line in runner.printed if "small" in line and "missed" in line)
    assert line.endswith(
        "1,139/s missed the objective: 1,424 of 5,695 offered requests were answered within 20 ms, "
        "and fewer than 98\u00a0% at all"
    )


def test_capacities_of_recorded_trials_are_known_to_a_resumed_run(blocks):
    runner = blocks()
    for record in runner.search(1).values():
        record.drivers = [DriverRecord(host="driver", argv=["x"], rc=0, stdout="a", stderr="b")]
        runner.store.end(record, runner.store.staging_folder(record.trial, 1), final=True)
    resumed = CapacityBlocks(runner.testbed, runner.store, lambda event: None)
    assert resumed.known == runner.known and [len(values) for values in resumed.known.values()] == [1, 1]


@pytest.mark.parametrize(
    ("missed", "margin", "known"),
    [("latency", -0.5, -0.5), ("errors", -0.5, None), (None, 0.5, None), ("latency", -99, None)],
)
def test_margin_of_a_probe_counts_if_its_times_missed_the_objective(missed, margin, known):
    probe = ProbeRecord(folder="x", phase="search", rate_per_s=1, status="ok", missed=missed, margin=margin)
    assert _margin_of_times(probe) == known


def test_files_of_the_probe_at_capacity_are_named_in_its_folder(blocks):
    runner = blocks()
    begun = runner.testbed.plan.trials[0]
    record = SearchedArm(runner.testbed, runner.testbed.plan.study.capacity, (begun, 1, None)).record
    record.drivers = [DriverRecord(host="a", argv=["x"], rc=0, stdout="out", stderr="err", files={"log": "a-log"})]
    (moved,) = _in_folder(record, "probe-02").drivers
    assert (moved.stdout, moved.stderr, moved.files) == ("probe-02/out", "probe-02/err", {"log": "probe-02/a-log"})
