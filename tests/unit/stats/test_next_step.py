"""What would decide a run that left something open."""

from __future__ import annotations

import re
from dataclasses import replace

from test_analyse import ARMS, make_run

from loadbook.core.units import format_duration
from loadbook.stats.analyse import analyse
from loadbook.stats.next_step import NOISE, NOISE_OF_IMPORTS, next_step
from loadbook.stats.results import StoppingState

WIDE = ARMS | {"again": ARMS["again"] | {"sd": 0.05}}
TWO = {"base": {}, "a": {"sd": 0.03}, "b": {"sd": 0.035}}


def test_decided_run_has_no_next_step() -> None:
    assert next_step(analyse(make_run({"base": {}, "a": {}, "b": {"effect": 0.1}})), "loadbook run s") == ""


def test_wide_aa_arm_needs_so_many_blocks_that_it_gets_narrower_than_the_margin() -> None:
    analysis = analyse(make_run(WIDE))
    what = "would probably narrow the A/A arm to ±2.%"
    step = next_step(analysis, "loadbook run s")
    printed = re.fullmatch(rf"a new run of (\d+) blocks {what}: loadbook run s --blocks \1", step)
    again = analysis.row("again")
    assert printed and int(printed[1]) > 12 * (again.half_width / 0.02) ** 2
    assert next_step(replace(analysis, margin=0.0001), "loadbook run s") == NOISE


def test_undecided_treatments_need_the_most_blocks_of_their_forecasts() -> None:
    analysis = analyse(make_run(TWO))
    about = [row.verdict.forecast.about for row in analysis.of_kind("treatment")]
    blocks = 12 + max(more or 0 for more in about)
    what = "all" if None not in about else "1 of 2 undecided"
    text = f"a new run of {blocks} blocks would probably decide {what}: loadbook run s --blocks {blocks}"
    assert next_step(analysis, "loadbook run s") == text


def test_next_step_has_the_time_of_a_run_whose_trials_have_times() -> None:
    run = make_run(TWO)
    trials = run.trials.assign(started=1000.0 + 50 * run.trials["block"])
    analysis = analyse(replace(run, trials=trials))
    assert analysis.block_s == 50
    blocks = re.findall(r"--blocks (\d+)", next_step(analysis, "x"))[0]
    assert f"{blocks} blocks (about {format_duration(50 * int(blocks))}) would" in next_step(analysis, "x")
    paused = trials.assign(started=trials["started"].where(trials["block"] < 5, trials["started"] + 9000))
    assert analyse(replace(run, trials=paused)).block_s == 50
    without = trials.assign(started=trials["started"].where(trials["block"] > 1))
    assert analyse(replace(run, trials=without)).block_s is None


def test_noise_beyond_every_number_of_blocks_asks_for_quiet_hosts_or_longer_trials() -> None:
    analysis = analyse(make_run({"base": {"sd": 0.4}, "a": {"sd": 0.4}}))
    assert next_step(analysis, "loadbook run s") == NOISE


def test_failed_check_and_planned_looks_have_no_next_step() -> None:
    undecided = analyse(make_run({"base": {"sd": 0.08}, "a": {"sd": 0.08}}))
    assert next_step(undecided, "x") != ""
    assert next_step(replace(undecided, stopping_state=StoppingState(rule="looks")), "x") == ""
    failed = analyse(make_run(ARMS | {"again": ARMS["again"] | {"effect": 0.3}}))
    assert next_step(failed, "x") == ""


def test_wide_aa_arm_asks_for_nothing_if_every_treatment_is_decided_nevertheless() -> None:
    analysis = analyse(make_run({name: WIDE[name] for name in ("base", "again")} | {"fast": {"effect": 0.3}}))
    assert analysis.wide_arms and analysis.row("fast").verdict.kind == "better"
    assert next_step(analysis, "loadbook run s") == ""


def test_undecided_imported_results_need_more_runs_of_each_treatment() -> None:
    analysis = analyse(make_run(TWO))
    printed = re.fullmatch(
        r"(\d+)(?: to \d+)? new runs of each, imported without these, would probably decide .* \(added to these: .*",
        next_step(analysis, None),
    )
    about = [row.verdict.forecast.about or 0 for row in analysis.of_kind("treatment")]
    assert printed and int(printed[1]) == 12 + max(about)
    noisy = analyse(make_run({"base": {"sd": 0.4}, "a": {"sd": 0.4}}))
    assert next_step(noisy, None) == NOISE_OF_IMPORTS
