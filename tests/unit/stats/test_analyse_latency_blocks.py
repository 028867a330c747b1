"""Runs with interleaved and plain blocks: each metric is compared among the trials that tell it, never among both."""

from __future__ import annotations

import numpy as np
import pytest
from test_analyse import Run, make_run

from loadbook.stats.analyse import analyse
from loadbook.stats.phrases import verdict_parts
from loadbook.store.tables import trial_values
from run_records import plan_of

ARMS = {"base": {}, "fast": {"effect": 0.06}, "again": {"check": "aa", "same_as": "base"}}
LATENCY_BLOCKS, BLOCKS = 6, 12


def mixed_run(**study: object) -> Run:
    """A run whose first six blocks are plain, at a third of the rate of the others."""
    run = make_run(ARMS, blocks=LATENCY_BLOCKS + BLOCKS, **study)
    is_plain = run.trials["block"] <= LATENCY_BLOCKS
    run.trials["measures"] = np.where(is_plain, "latencies", "rates")
    of_plain = run.measurements["trial"].isin(run.trials.loc[is_plain, "trial"])
    is_rate, is_latency = (run.measurements["metric"] == name for name in ("ok_per_s", "latency"))
    run.measurements.loc[of_plain & is_rate, "value"] /= 3
    run.measurements.loc[~of_plain & is_latency, "value"] *= 100  # as if pauses were counted
    run.plan = plan_of(blocks=BLOCKS, latency_blocks=LATENCY_BLOCKS)
    return run


@pytest.mark.parametrize(
    ("metric", "blocks", "level", "printed"),
    [("ok_per_s", BLOCKS, 40_000, "12 interleaved blocks"), ("latency", LATENCY_BLOCKS, 50 / 40_000, "6 plain blocks")],
)
def test_metric_is_compared_among_the_trials_that_tell_it(metric: str, blocks: int, level: float, printed: str) -> None:
    found = analyse(mixed_run(), metric=metric)
    row = found.row("fast")
    assert (row.trials, row.verdict.comparison.blocks, found.planned_blocks) == (blocks, blocks, blocks)
    assert found.row("base").median == pytest.approx(level, rel=0.05)
    assert row.verdict.kind == "better"
    assert f", {printed}." in verdict_parts(row.verdict).after_name


def test_values_of_counts_are_those_of_every_trial() -> None:
    run = mixed_run()
    assert len(trial_values(run.trials, run.measurements, "errors")) == 3 * (LATENCY_BLOCKS + BLOCKS)


def test_verdict_of_a_run_with_one_execution_does_not_name_it() -> None:
    assert ", 12 blocks." in verdict_parts(analyse(make_run(ARMS, blocks=12)).row("fast").verdict).after_name


def test_looks_count_interleaved_blocks_and_latencies_have_none() -> None:
    run = mixed_run(stopping={"rule": "looks", "looks": [6, BLOCKS]})
    run.trials = run.trials[run.trials["block"] <= LATENCY_BLOCKS + 6]
    comparison = analyse(run).row("fast").verdict.comparison
    assert (comparison.blocks, comparison.interim_analysis) == (6, (1, 2))
    comparison = analyse(run, metric="latency").row("fast").verdict.comparison
    assert (comparison.blocks, comparison.interim_analysis, comparison.level) == (LATENCY_BLOCKS, None, 0.95)
    run.trials = run.trials[run.trials["block"] <= LATENCY_BLOCKS]
    assert "not yet a planned look: 0 blocks are complete" in (analyse(run).row("fast").verdict.reason or "")


def test_missing_plain_block_is_a_missing_block_of_the_latency_alone() -> None:
    run = mixed_run()
    run.trials = run.trials[run.trials["block"] != 1]
    assert analyse(run, metric="latency").row("fast").verdict.comparison.excluded == 1
    assert analyse(run).row("fast").verdict.comparison.excluded == 0


def test_run_that_has_only_its_plain_blocks_so_far_has_no_rate() -> None:
    run = mixed_run()
    run.trials = run.trials[run.trials["block"] <= LATENCY_BLOCKS]
    row = analyse(run).row("fast")
    assert (row.trials, row.verdict.kind) == (0, "invalid")
    assert analyse(run, metric="latency").row("fast").verdict.kind == "better"
