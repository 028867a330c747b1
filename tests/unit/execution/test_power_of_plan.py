"""What a plan can find at recorded noise: from which runs it is known, and what is said where it is not."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import chi2, t

from loadbook.core.units import format_duration
from loadbook.execution.power import aa_arms, forecast_power, noise_samples, power_lines, underpowered_note
from loadbook.execution.studies import load_study
from loadbook.store import trial_record
from loadbook.store.paths import Layout
from loadbook.store.run_record import write_run_record
from loadbook.store.tables import to_arrow, write_arrow
from loadbook.study.plan import Plan, make_plan
from recorded_run import with_studies
from run_records import make_run_record
from slice_samples import slice_rows

LAB = {"driver": {"roles": ["driver"], "cpus": [0]}, "web": {"roles": ["web"], "cpus": [1]}}
REMOTE = """
[hosts.driver]
roles = ["driver"]
cpus = [0]
[hosts.web]
roles = ["web"]
cpus = [1]
"""


@dataclass(frozen=True)
class Given:
    """A run as it was recorded: scatter of its trials, and what makes its hosts others."""

    run: str = "20261120-100000"
    sd: float = 0.01
    lab: bool | str = True
    machine: str = "m1"
    seconds: int = 0
    slice_noise: float = 0.0
    more: tuple[tuple[str, object], ...] = ()


def keep(layout: Layout, plan: Plan, given: Given = Given()) -> None:
    """Write what `noise_samples` reads of a run: plan, run.json, facts and three tables."""
    paths, dice = layout.run(plan.study.name, given.run), np.random.default_rng(int(given.run[-6:]))
    trial_record.write_json(paths.plan_json, plan.to_json())
    write_run_record(paths, make_run_record(**{"hosts": LAB, "lab": given.lab, "replay": None} | dict(given.more)))
    for host in LAB:
        trial_record.write_json(paths.facts / f"{host}-before.json", {"machine": {"value": given.machine}})
    key = {"study": plan.study.name, "run": given.run}
    trials, measured, samples = [], [], []
    for one in plan.trials:
        own = key | {"trial": one.trial}
        trials.append(own | {
            "treatment": one.treatment, "block": one.block, "slot": one.slot,
            "execution": "plain", "measures": "all", "status": "ok", "attempt": 1,
            "tool": "wrk", "load_model": "closed", "drivers": 1, "valid": True, "gates": [], "duration_s": 1.9,
        })  # fmt: skip
        rate = 1000 * float(np.exp(dice.normal(0, given.sd)))
        kept = own | {"driver": "*", "metric": "ok_per_s", "unit": "1/s"}
        measured.append(kept | {"statistic": "value", "value": rate})
        samples += [
            own | {"driver": "driver", "series": "ended", "metric": "requests_per_s", "x": float(x), "x_unit": "s",
                   "value": rate * float(np.exp(dice.normal(0, 0.02))), "unit": "1/s"}
            for x in range(given.seconds)
        ]  # fmt: skip
        if given.slice_noise:
            samples += [own | {"driver": "driver"} | row for row in slice_rows(one.trial, 1e6, given.slice_noise, dice)]
    for name, rows in (("trials", trials), ("measurements", measured), ("samples", samples)):
        write_arrow(paths.table(name), to_arrow(name, rows))


@pytest.fixture
def layout(tmp_path):
    return with_studies(tmp_path)


def planned(layout: Layout, study: str = "noise", blocks: int | None = None) -> Plan:
    return make_plan(load_study(layout, study).model_copy(update={"execution": "plain"}), blocks=blocks)


def test_plan_without_recorded_noise_states_its_assumption(layout):
    found = forecast_power(layout, planned(layout))
    assert found.sd_range is None and found.blocks_needed_range is None
    assert "assumed, 2.5\u00a0% per trial, as nothing is recorded on these hosts yet" in "\n".join(power_lines(found))
    assert "length      not known: nothing is recorded yet" in power_lines(found)


def test_plan_states_the_chance_of_the_checks_and_names_absent_ones(layout):
    """With a known scatter, half of the t interval decides: its chance follows from the chi-square distribution."""
    plan = planned(layout, "aa")
    forecast = forecast_power(layout, plan)
    blocks, limit = plan.blocks, math.log1p(plan.study.margin)
    quantile = limit * math.sqrt(blocks) / (t.ppf(0.975, blocks - 1) * forecast.sd)
    assert forecast.aa_chance == pytest.approx(chi2.cdf(quantile**2 * (blocks - 1), blocks - 1), abs=0.1)
    share = f"in about {100 * forecast.aa_chance:.0f}\u00a0% of such runs"
    assert power_lines(forecast)[-3:-1] == [
        f"A/A         arm narrower than 2.0\u00a0% {share}; else only larger differences can be told",
        'control     none: nothing shows that a cost would be found (check = "control")',
    ]
    more = forecast_power(layout, planned(layout, "aa", blocks=60)).aa_chance
    assert more > forecast.aa_chance
    capacity = forecast_power(layout, make_plan(load_study(layout, "capacity-smoke")))
    assert capacity.aa_chance is None and any("A/A         no arm" in line for line in power_lines(capacity))


def test_plan_uses_noise_recorded_on_its_hosts(layout):
    plan = planned(layout)
    keep(layout, plan)
    found = forecast_power(layout, plan)
    assert found.sd == pytest.approx(0.0141, rel=0.25)
    assert found.blocks_needed_range[0] < found.blocks_needed < found.blocks_needed_range[1]
    assert found.source == "recorded with this load: 120 trials alike, run 20261120-100000 of noise"
    assert not found.underpowered and underpowered_note(found) is None
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    "given",
    [
        Given(lab=False),
        Given(lab="netns"),
        Given(more=(("replay", "20261119-1"),)),
        Given(more=(("imported", {"timed": True}),)),
    ],
    ids=["other hosts", "the other lab", "played back", "imported"],
)
def test_plan_ignores_noise_of_other_hosts(layout, given):
    plan = planned(layout)
    keep(layout, plan, given)
    assert noise_samples(layout, plan) == []


def test_plan_distinguishes_noise_of_lab_and_hosts_file(layout, tmp_path):
    plan, hosts = planned(layout), tmp_path / "hosts.toml"
    hosts.write_text(REMOTE)
    keep(layout, plan)
    keep(layout, plan, Given("20261120-110000", lab=False))
    assert [one.run for one in noise_samples(layout, plan, hosts)] == ["20261120-110000"]
    hosts.write_text(REMOTE.replace("cpus = [1]", "cpus = [2]"))
    assert noise_samples(layout, plan, hosts) == []


def test_plan_ignores_noise_of_a_single_block(layout):
    plan = planned(layout, "nginx-directives", blocks=1)
    alone = replace(plan, trials=tuple(t for t in plan.trials if t.treatment != "again"))
    keep(layout, alone)
    assert len({t.treatment for t in alone.trials}) > 5
    assert noise_samples(layout, alone) == []


def test_plan_ignores_noise_recorded_before_a_machine_was_replaced(layout):
    plan = planned(layout, blocks=20)
    keep(layout, plan, Given("20261120-100000", machine="old"))
    keep(layout, plan, Given("20261120-120000", machine="new"))
    assert [one.run for one in noise_samples(layout, plan)] == ["20261120-120000"]


def test_plan_prefers_noise_of_new_runs_with_the_same_load(layout):
    noise, other = planned(layout, blocks=25), planned(layout, "tool-agreement", blocks=25)
    for hour in range(4):
        keep(layout, noise, Given(f"20261120-1{hour}0000"))
    keep(layout, other, Given("20261120-200000"))
    assert [one.run[9:11] for one in noise_samples(layout, noise)] == ["13", "12", "11"]
    assert [one.study for one in noise_samples(layout, other)] == ["tool-agreement"]


def test_plan_skips_unreadable_runs(layout):
    plan = planned(layout, blocks=20)
    keep(layout, plan)
    keep(layout, plan, Given("20261120-120000"))
    layout.run("noise", "20261120-120000").table("trials").write_bytes(b"torn")
    assert [one.run for one in noise_samples(layout, plan)] == ["20261120-100000"]


def test_plan_with_too_few_blocks_prints_the_number_needed(layout):
    plan = planned(layout)
    keep(layout, plan, Given(sd=0.06))
    forecast = forecast_power(layout, replace(plan, blocks=8, trials=plan.trials[:16]))
    exact = replace(
        forecast, detectable=0.0523, sd=0.1823, blocks_needed=604, blocks_needed_range=(259, 2285), effect=0.02
    )
    minutes = format_duration(exact.hours(604) * 3600).replace("\u00a0", " ")
    assert printed(exact) == (
        f"This run can see differences of 5.2 % or more. For 2 %: --blocks 600 ({minutes}; 260 to 2,300 blocks). "
        "(Noise recorded on these hosts: 18 %.)"
    )
    assumed = replace(exact, sd=0.0354, sd_range=None, blocks_needed=28, blocks_needed_range=None)
    minutes = format_duration(exact.hours(28) * 3600).replace("\u00a0", " ")
    assert printed(assumed).endswith(f"For 2 %: --blocks 28 ({minutes}). (Noise assumed, as on quiet hosts: 3.5 %.)")
    few = forecast_power(layout, replace(plan, blocks=4))
    assert printed(few).startswith("This run has too few blocks to see any difference. For 2 %: --blocks ")
    assert "For 2 %: more than 10,000 blocks. " in printed(replace(few, blocks_needed=None, blocks_needed_range=None))


def printed(forecast):
    return underpowered_note(forecast).replace("\u00a0", " ")


def test_needed_blocks_of_a_plan_are_rounded(layout):
    plan = planned(layout)
    forecast = replace(forecast_power(layout, plan), blocks_needed=604, blocks_needed_range=(259, 2285))
    assert any(line.startswith("needed      about 600 blocks (260 to 2,300), ") for line in power_lines(forecast))


def test_plan_with_more_comparisons_needs_more_blocks(layout):
    keep(layout, planned(layout))
    single, several = (forecast_power(layout, planned(layout, name)) for name in ("noise", "nginx-directives"))
    assert several.alpha < single.alpha == 0.05
    assert several.blocks_needed > single.blocks_needed
    assert "one of " in "\n".join(power_lines(several))


def test_plan_noise_of_runs_without_aa_arm_removes_treatment_effects(layout):
    plan = planned(layout, "known-cost")
    alone = replace(plan, trials=tuple(t for t in plan.trials if t.treatment != "again"))
    keep(layout, alone)
    (found,) = noise_samples(layout, alone)
    assert not found.aa and len(found.pairs) == 2 * plan.blocks
    assert "trials, effects taken out" in forecast_power(layout, alone).source


def test_plan_derives_trial_length_from_rates_within_trials(layout):
    plan = planned(layout)
    keep(layout, plan, Given(seconds=40))
    reported = power_lines(forecast_power(layout, plan))[-1]
    assert reported.startswith("length      trials of ") and "longer ones do not replace more" in reported
    keep(layout, plan, Given("20261120-110000"))
    assert "tells rates by the second" in power_lines(forecast_power(layout, plan))[-1]


def test_plan_derives_the_length_of_interleaved_trials_from_their_slices(layout):
    study = load_study(layout, "noise").model_copy(update={"execution": "interleaved"})
    keep(layout, make_plan(study), Given(sd=0.02, slice_noise=0.1))
    reported = power_lines(forecast_power(layout, make_plan(study)))[-1]
    assert reported.startswith("length      trials of ") and "1.6\u00a0% within a second" in reported
    assert "900\u00a0ms around each" in reported


def test_plan_of_interleaved_trials_without_recorded_slices_says_so(layout):
    study = load_study(layout, "noise").model_copy(update={"execution": "interleaved"})
    keep(layout, make_plan(study), Given(sd=0.02))
    reported = power_lines(forecast_power(layout, make_plan(study)))[-1]
    assert reported == "length      not known: it takes an interleaved run of this load with an A/A arm and five blocks"


def test_plan_finds_all_aa_arms_of_the_baseline(layout):
    assert aa_arms(load_study(layout, "noise")) == ("baseline", "again")
    assert "control-access-log" not in aa_arms(load_study(layout, "nginx-directives"))
