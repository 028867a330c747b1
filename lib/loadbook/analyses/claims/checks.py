"""Checks of claims: one function per kind of claim, which takes a claim and a run and returns a finding.

`check_claims` checks all claims of a study. Direction is checked before size. A claim is contradicted only by evidence
against it; a claim that is merely not shown is undecided. Sentences state results without advice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.stats import binomtest, fisher_exact, theilslopes

from loadbook.analyses.claims import compute
from loadbook.analyses.claims.compute import ClaimFinding, ClaimResult, ClaimRun, number_text
from loadbook.core.units import NBSP, format_p_value, format_percent, pluralize, shorten_list
from loadbook.stats.compare import MIN_BLOCKS, MIN_SIGNED_BLOCKS
from loadbook.stats.error_text import rate_ratio_text
from loadbook.stats.errors import ALPHA, errors_by_block
from loadbook.stats.headline import neutral_caption
from loadbook.stats.paired_tests import complete_blocks, paired_t, permutation_p, signed_rank
from loadbook.stats.results import ErrorSummary, Forecast, Interval, Verdict, loss_at_margin
from loadbook.stats.saturation import RESOURCE_NOUNS, saturation_of_run
from loadbook.stats.text import direction, forecast_text, margin_text
from loadbook.stats.verdict import MAX_FORECAST_BLOCKS, decide_verdict, forecast_one_sided
from loadbook.store.tables import RunData, RunTables, strata_of
from loadbook.study.model import ERROR_CLAIM_KINDS, Claim

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.results import Analysis
    from loadbook.study.model import ClaimKind, Study

# a claim that errors occur means at least this share of trials; the checks' false-positive rates hold at this share
MIN_FAILING_SHARE = 0.3
MAX_NAMES = 3


def check_claims(
    study: Study, data: RunTables | None = None, analysis: Analysis | None = None, level: float = 0.95
) -> list[ClaimResult]:
    """Check every claim of a study, each within its own condition if the study analyses conditions separately.

    Parameters
    ----------
    study : the claims and their order. A treatment changed in it since the run counts as not run.
    data : a run of that study; None if there is none: every claim is then "not yet run".
    analysis : an existing analysis of `data` at `level`, whose metric and baseline are used; None: make one.
    level : confidence of the intervals.
    """
    runs = [ClaimRun(data, analysis, level, study)] if data is not None else []
    if data is not None and data.study.stratify_by is not None and analysis is None:
        runs = [*(ClaimRun(part, None, level, study) for part in strata_of(cast("RunData", data)).values()), *runs]
    results = []
    for claim in study.published.claims if study.published else ():
        arms = set(required_arms(claim))
        run = next((run for run in runs if arms <= run.treatments_run), runs[-1] if runs else None)
        finding = _check_claim(study, run, claim)
        article = compute.assess_article(claim, study.validity.offered_ceiling, _pair_sd_log(claim, finding, run))
        margin = run.margin(claim) if run else claim.margin or study.margin
        results.append(ClaimResult(claim, compute.criterion_text(claim, margin), finding, article))
    return results


def required_arms(claim: Claim) -> tuple[str, ...]:
    """Return the treatments without which the claim is not checked; a claim "X is best" may lack some of its rivals."""
    return (claim.treatment, claim.against) if claim.effective_kind == "best" else claim.treatments


def _check_claim(study: Study, run: ClaimRun | None, claim: Claim) -> ClaimFinding:
    missing = [study.label(n) for n in required_arms(claim) if run and n not in run.treatments_run]
    if run is None or missing:
        subset = _smallest_subset(study, claim)
        what = not_run_sentence(missing) if missing else "The study has no run."
        option = f" --subset {subset}" if subset else ""
        return ClaimFinding("not-run", f"{what} To run: loadbook run {study.name}{option}.")
    if claim.effective_kind == "resource":  # checked by host metrics (traces), not by a comparison
        return check_resource(claim, run)
    if claim.effective_kind not in ERROR_CLAIM_KINDS and run.values(claim)["value"].isna().all():
        tools = study.tools_of(run.treatments_run)
        return ClaimFinding("unchecked", not_measured_sentence(*run.metric(claim), tools))
    analysis = run.analysis(claim)
    if not analysis.allows_headline and claim.effective_kind not in ERROR_CLAIM_KINDS:
        return ClaimFinding("unchecked", neutral_caption(analysis))
    if reason := analysis.stopping_state.pending_reason:
        return ClaimFinding("unchecked", f"{reason[0].upper()}{reason[1:]}.")
    return CHECKS[claim.effective_kind](claim, run)


def _smallest_subset(study: Study, claim: Claim) -> str | None:
    """Return the smallest subset of the study with all treatments of the claim; None if a plain run has them."""
    wanted = set(claim.treatments)
    if wanted <= set(study.treatments_in()):
        return None
    candidates = [name for name, arms in study.subsets.items() if wanted <= set(arms)]
    return min(candidates, key=lambda name: len(study.subsets[name]), default="all")


def _pair_sd_log(claim: Claim, finding: ClaimFinding, run: ClaimRun | None) -> float | None:
    """Return the SD of the log ratio of two trials: of the claim's comparison, else the median of the run's."""
    if finding.verdict and finding.verdict.comparison.sd_log:
        return finding.verdict.comparison.sd_log
    rows = run.analysis(claim).rows if run else ()
    sds = [sd for row in rows if row.verdict and (sd := row.verdict.comparison.sd_log)]
    return median(sds) if sds else None


def check_direction(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "X is faster" or "X is slower": holds if a difference in that direction is significant, however small.

    Contradicted by a significant difference in the other direction, or by equivalence unless the article's own effect
    is within the margin.
    """
    verdict = run.joint_verdict(claim)
    sentence, claimed = run.sentence(claim, verdict), claim.claimed_effect
    if verdict.kind == "invalid":
        return ClaimFinding("unchecked", sentence, verdict)
    direction_shown = verdict.kind
    if verdict.kind == "small":
        direction_shown = "better" if _is_better(verdict) else "worse"
    if direction_shown == claim.effective_kind:
        low, high = verdict.comparison.ci95 or (0.0, 0.0)
        if claimed is not None:
            position = "inside" if low <= claimed <= high else "above" if claimed > high else "below"
            sentence += f" The article’s {format_percent(claimed)} lies {position} that interval."
        return ClaimFinding("holds", sentence, verdict, _size_met(claim, run, verdict))
    if direction_shown in ("better", "worse"):
        return ClaimFinding("contradicted", sentence, verdict)
    if verdict.kind == "equivalent" and (claimed is None or abs(claimed) > verdict.margin):
        return ClaimFinding("contradicted", sentence, verdict)
    if verdict.kind == "equivalent" and claimed is not None:
        sentence += f" The article’s {format_percent(claimed)} is not larger."
    return ClaimFinding("undecided", sentence, verdict)


def _is_better(verdict: Verdict) -> bool:
    higher = direction(verdict.comparison.metric) == "higher"
    return ((verdict.comparison.effect or 0.0) > 0) == higher


def _size_met(claim: Claim, run: ClaimRun, verdict: Verdict) -> bool | None:
    """Return whether the run shows the claimed size, or more if it is a lower bound; None without size or interval."""
    claimed, comparison = claim.claimed_effect, verdict.comparison
    if claimed is None or comparison.ci95 is None:
        return None
    larger, value, offered = abs(comparison.effect or 0.0) > abs(claimed), claim.value, claim.offered_per_s
    at_ceiling = bool(value and offered and value >= run.study.validity.offered_ceiling * offered)
    return comparison.ci95[0] <= claimed <= comparison.ci95[1] or (larger and at_ceiling)


def check_best(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "X is best": holds if X beats every rival, each tested at 5 % (Gutmann and Maymin).

    Contradicted if a rival is significantly ahead (p times the number of rivals: Bonferroni) or if the lead over
    `against` is smaller than the margin. Undecided if a rival was not run.
    """
    rivals = [name for name in dict.fromkeys((claim.against, *claim.among)) if name != claim.treatment]
    verdicts = {name: run.verdict(claim, claim.treatment, name) for name in rivals if name in run.treatments_run}
    main = verdicts.get(claim.against)
    main_sentence = run.sentence(claim, main) if main else ""
    verdicts = {name: verdict for name, verdict in verdicts.items() if verdict.kind != "invalid"}
    if not verdicts:
        return ClaimFinding("unchecked", main_sentence, main)
    ahead = [
        n for n, v in verdicts.items() if not _is_better(v) and _p_or_one(v) * len(verdicts) < 1 - v.comparison.level
    ]
    if ahead:
        rival = min(ahead, key=lambda name: _p_or_one(verdicts[name]))
        sentence = f"A rival is ahead of it: {run.sentence(claim, verdicts[rival], rival)}"
        return ClaimFinding("contradicted", sentence, main)
    if main and main.kind == "equivalent":
        return ClaimFinding("contradicted", main_sentence, main)
    tied = [n for n, v in verdicts.items() if not (_is_better(v) and _p_or_one(v) < 1 - v.comparison.level)]
    label, number = run.label(claim.treatment), len(verdicts)
    if tied:
        forecast = joint_forecast_sentence([forecast for n in tied if (forecast := verdicts[n].forecast)])
        of = f", {len(tied)} of its {number} rivals" if number > 1 else ""
        sentence = f"{label} is not shown to be ahead of {joined_names(map(run.label, tied))}{of}. {forecast}".strip()
    else:
        rivals_text = "the other one" if number == 1 else f"each of the other {number}"
        p = format_p_value(max(map(_p_or_one, verdicts.values())))
        sentence = f"{label} is ahead of {rivals_text} (largest p {p}); its lead is likely a little overstated."
    missing = [name for name in rivals if name not in verdicts]
    if not_run := [run.label(n) for n in missing if n not in run.treatments_run]:
        sentence += f" {not_run_sentence(not_run)}"
    if not_compared := [run.label(n) for n in missing if n in run.treatments_run]:
        sentence += f" Not compared: {joined_names(not_compared)}."
    if tied or missing:
        return ClaimFinding("undecided", sentence, main)
    return ClaimFinding("holds", sentence, main, _size_met(claim, run, main) if main else None)


def _p_or_one(verdict: Verdict) -> float:
    return 1.0 if verdict.comparison.p is None else verdict.comparison.p


def check_non_inferiority(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "X costs nothing": holds if a loss beyond the margin is excluded (one-sided non-inferiority test, 5 %).

    Contradicted if a loss beyond the margin is shown.
    """
    two_sided = run.joint_verdict(claim)
    better = direction(two_sided.comparison.metric)
    verdict = decide_verdict(
        two_sided.comparison, run.margin(claim), better, reason=two_sided.reason, hypothesis="non-inferiority"
    )
    outcomes = {"no-loss": "holds", "worse": "contradicted", "invalid": "unchecked"}
    outcome: compute.ClaimOutcome = outcomes.get(verdict.kind, "undecided")  # type: ignore[assignment]
    return ClaimFinding(outcome, run.sentence(claim, verdict), verdict)


def check_equivalence(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "X and Y hardly differ": holds if a difference beyond the margin is excluded.

    Contradicted only if the whole 90 % interval lies beyond the margin.
    """
    verdict = run.joint_verdict(claim)
    sentence, kind = run.sentence(claim, verdict), verdict.kind
    if kind in ("equivalent", "small"):
        return ClaimFinding("holds", sentence, verdict)
    if kind == "invalid":
        return ClaimFinding("unchecked", sentence, verdict)
    low, high = verdict.comparison.ci90 or (0.0, 0.0)
    if high < loss_at_margin(verdict.margin, "higher") or low > loss_at_margin(verdict.margin, "lower"):
        return ClaimFinding("contradicted", sentence, verdict)
    if kind in ("better", "worse"):
        distance = abs(math.log1p(verdict.margin) - abs(math.log1p(verdict.comparison.effect or 0.0)))
        forecast = forecast_one_sided(verdict.comparison, distance)
        sentence += f" It may be smaller than the {margin_text(verdict.margin)} that matters."
        sentence += f" {forecast_text(replace(verdict, forecast=forecast))}."
    return ClaimFinding("undecided", sentence, verdict)


def check_slope(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "the rate falls with size by this power": holds if the 90 % interval of the slope lies in the range.

    One slope per block (Theil-Sen over the logs), then an interval over the blocks (Student's t below 10 blocks, else
    signed ranks): the unit is the block, not the trial. Contradicted if the interval lies outside the range.
    """
    sizes = {name: run.study.levels_of(name)[claim.factors[0]] for name in claim.treatments}
    not_positive = [f"{run.label(n)} ({x})" for n, x in sizes.items() if not isinstance(x, int | float) or not x > 0]
    if not_positive or len(set(sizes.values())) < 2:
        sentence = f"A slope needs at least two values of {claim.factors[0]}."
        if not_positive:
            sentence = f"{claim.factors[0]} is not a positive number for {joined_names(not_positive)}."
        return ClaimFinding("unchecked", sentence)
    if full := [run.label(name) for name in sizes if run.mostly_at_ceiling(name)]:
        served = f"All of the offered load was served by {joined_names(full)}"
        return ClaimFinding("unchecked", f"{served}: that rate is the generator’s setting; offer more.")
    table, x = complete_blocks(run.values(claim), list(sizes)), np.log([float(size) for size in sizes.values()])
    slopes = np.array([theilslopes(np.log(row), x).slope for row in table.to_numpy(float)])
    if len(slopes) < MIN_BLOCKS:
        return ClaimFinding("unchecked", too_few_blocks_sentence(len(slopes)))
    test = signed_rank if len(slopes) >= MIN_SIGNED_BLOCKS else paired_t
    result = test(np.zeros_like(slopes), slopes, [0.10])
    slope, interval = result.estimate, result.intervals[0]
    assert interval is not None  # 5 blocks have a 90 % interval by t, 10 by signed ranks
    low, high = interval
    sentence = slope_sentence(slope, interval, len(slopes), len(sizes))
    short = f"slope {number_text(slope)} ({number_text(low)} to {number_text(high)})"
    least, most = claim.slope or (0.0, 0.0)
    if least <= low and high <= most:
        return ClaimFinding("holds", sentence, short_evidence=short)
    return ClaimFinding("contradicted" if high < least or low > most else "undecided", sentence, short_evidence=short)


def check_resource(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "its CPU is full" or "2 GB is enough": holds if the measured use lies in the claimed range in every trial.

    Contradicted if every trial lies on the same side of the range; for memory the highest use of all trials counts.
    """
    rows, label = _usage_rows(claim, run), run.label(claim.treatment)
    noun = RESOURCE_NOUNS[claim.resource or ""]
    if rows is None or rows.empty or claim.used is None:
        lacks = ", or its link’s rate is not known" if claim.resource == "network" else ""
        return ClaimFinding("unchecked", f"No monitor recorded the {noun} of the {claim.role} under {label}{lacks}.")
    low, high = float(rows["least"].min()), float(rows["most"].max())
    if claim.resource == "memory":
        low = high = float(rows["peak"].max())
    bounds = " to ".join(dict.fromkeys(compute.usage_value_text(claim, bound) for bound in (low, high)))
    at_most, trials = "at most " if claim.resource == "memory" else "", int(rows["trials"].max())
    sentence = f"{label}: the {claim.role} used {at_most}{bounds} of its {noun}, {pluralize(trials, 'trial')}."
    short = compute.usage_value_text(claim, float(rows["mean"].mean()) if claim.resource != "memory" else high)
    if claim.used[0] <= low and high <= claim.used[1]:
        return ClaimFinding("holds", sentence, short_evidence=short)
    outside = high < claim.used[0] or low > claim.used[1]
    return ClaimFinding("contradicted" if outside else "undecided", sentence, short_evidence=short)


def _usage_rows(claim: Claim, run: ClaimRun) -> pd.DataFrame | None:
    """Return the use of the resource by treatment and host of the claim's role; None if the run has no host metrics."""
    if not isinstance(run.data, RunData):
        return None
    usage = saturation_of_run(run.data)
    roles = usage["role"].str.split("/").map(lambda host_roles: claim.role in host_roles)
    rows = usage[roles.astype(bool) & (usage["treatment"] == claim.treatment) & (usage["resource"] == claim.resource)]
    return rows if claim.resource == "memory" else rows.dropna(subset=["mean"])


def check_errors(claim: Claim, run: ClaimRun, expected: str) -> ClaimFinding:
    """Check "X brings errors" or "X removes errors" (`expected` is "more" or "fewer").

    "More" holds if errors occur in more trials (or more per attempt) than with the other treatment; it is contradicted
    if they occur in fewer, or if the upper bound of their share of trials is below the margin. "Fewer" is not checked
    if the other treatment had no errors, or if its upper bound is below the margin.
    """
    own, other = run.errors(claim.treatment, claim.against)
    if not own.trials or not other.trials:
        return ClaimFinding("unchecked", "Errors were not counted in any trial of these treatments.")
    label, against = run.label(claim.treatment), run.label(claim.against)
    sentence = error_trials_sentence(own, other, label, against)
    short = two_arms_text((own.trials_with_errors, own.trials), (other.trials_with_errors, other.trials))
    if own.rate_ratio is not None and (own.p or 0.0) >= ALPHA:
        short = f"{own.rate_ratio:.2g} times as many errors per request"
    if own.kind in ("more", "fewer"):
        return ClaimFinding("holds" if own.kind == expected else "contradicted", sentence, short_evidence=short)
    margin = claim.margin or MIN_FAILING_SHARE
    if expected == "fewer":
        bound = failing_share_bound(other.trials_with_errors, other.trials)
        if not other.trials_with_errors or bound < margin:
            sentence += f" There was nothing to remove: at most {_share_text(bound)} of {against}’s trials have errors."
            return ClaimFinding("unchecked", sentence, short_evidence=short)
    elif (bound := failing_share_bound(own.trials_with_errors, own.trials)) < margin:
        few = few_errors_sentence(label, bound, margin)
        return ClaimFinding("contradicted", f"{sentence} {few}", short_evidence=short)
    shares = own.trials_with_errors / own.trials, other.trials_with_errors / other.trials

    def decides(blocks: int) -> bool:
        failing = [round(share * blocks) for share in shares]
        differ = fisher_exact([[k, blocks - k] for k in failing]).pvalue < ALPHA
        return bool(differ) or (expected == "more" and failing_share_bound(failing[0], blocks) < margin)

    forecast = error_forecast_sentence(min(own.trials, other.trials), decides)
    return ClaimFinding("undecided", f"{sentence} {forecast}", short_evidence=short)


def failing_share_bound(failing: int, trials: int) -> float:
    """Return the upper 95 % bound of the share of trials with errors (one-sided, Clopper and Pearson)."""
    return float(binomtest(failing, trials, alternative="less").proportion_ci(1 - ALPHA).high)


FactorCell = tuple[bool, bool]  # whether the cause and whether the remedy is on
BOTH, CAUSE, REMEDY, NEITHER = (True, True), (True, False), (False, True), (False, False)


def check_interaction(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "A brings errors and B removes them": B's effect on trials with errors differs with and without A.

    `claim.factors` are A and B. Their four combinations (cells) give one contrast per block, tested by its signs.
    Contradicted if the contrast has the opposite sign, or if the upper bound of A's share of trials with errors is
    below the margin.
    """
    cause, remedy = claim.factors
    names = {BOTH: f"{cause} with {remedy}", CAUSE: f"{cause} alone", REMEDY: f"{remedy} alone",
             NEITHER: f"neither {cause} nor {remedy}"}  # fmt: skip
    cells = _arms_by_cell(claim, run)
    empty = [names[cell] for cell, arms in cells.items() if not arms]
    if empty:
        return ClaimFinding("not-run", not_run_sentence(empty))
    table = errors_by_block(run.data.trials, run.data.measurements, [arm for arms in cells.values() for arm in arms])
    if len(table) < MIN_BLOCKS:
        return ClaimFinding("unchecked", too_few_blocks_sentence(len(table)))
    # per block: change by the remedy with the cause minus change without it, scaled to whole numbers
    multiple = math.lcm(*(len(arms) for arms in cells.values()))
    counts = {c: table[arms].sum(axis=1).to_numpy(float) * (multiple / len(arms)) for c, arms in cells.items()}
    contrast = np.asarray(counts[BOTH] - counts[CAUSE] - counts[REMEDY] + counts[NEITHER])
    p = float(permutation_p(contrast[None, :])[0])
    failing = {cell: (int(table[arms].to_numpy().sum()), int(table[arms].size)) for cell, arms in cells.items()}
    cells_text = "; ".join(f"{names[cell]}: {count} of {trials}" for cell, (count, trials) in failing.items())
    sentence = f"Trials with errors: {cells_text} (interaction by block, p {format_p_value(p)})."
    finding = ClaimFinding("undecided", sentence, short_evidence=two_arms_text(failing[BOTH], failing[CAUSE]))
    if p < ALPHA and contrast.sum() > 0:
        return replace(finding, outcome="contradicted")
    share = {cell: count / trials for cell, (count, trials) in failing.items()}
    if p < ALPHA and share[CAUSE] > max(share[BOTH], share[NEITHER]):
        return replace(finding, outcome="holds")
    bound, margin = failing_share_bound(*failing[CAUSE]), claim.margin or MIN_FAILING_SHARE
    if bound < margin:
        few = few_errors_sentence(names[CAUSE], bound, margin)
        return replace(finding, outcome="contradicted", evidence=f"{sentence} {few}")

    def decides(blocks: int) -> bool:
        trials = blocks * len(cells[CAUSE])
        differ = permutation_p(np.resize(contrast, blocks)[None, :])[0] < ALPHA
        return bool(differ) or failing_share_bound(round(share[CAUSE] * trials), trials) < margin

    return replace(finding, evidence=f"{sentence} {error_forecast_sentence(len(contrast), decides)}")


def _arms_by_cell(claim: Claim, run: ClaimRun) -> dict[FactorCell, list[str]]:
    """Return the treatments of each cell; a factor is "on" at the level that it has in the claim's treatment."""
    on = run.study.levels_of(claim.treatment)
    arm_names = claim.treatments if claim.among else [n for n, t in run.study.treatments.items() if not t.check]
    cells: dict[FactorCell, list[str]] = {cell: [] for cell in (BOTH, CAUSE, REMEDY, NEITHER)}
    for name in (n for n in arm_names if n in run.treatments_run):
        cause, remedy = (run.study.levels_of(name)[f] == on[f] for f in claim.factors)
        cells[cause, remedy].append(name)
    return cells


CHECKS: dict[ClaimKind, Callable[[Claim, ClaimRun], ClaimFinding]] = {
    "better": check_direction,
    "worse": check_direction,
    "best": check_best,
    "no-loss": check_non_inferiority,
    "equivalent": check_equivalence,
    "fewer-errors": partial(check_errors, expected="fewer"),
    "more-errors": partial(check_errors, expected="more"),
    "interaction": check_interaction,
    "slope": check_slope,
    "resource": check_resource,
}


def not_run_sentence(labels: Sequence[str]) -> str:
    """Return the sentence that these treatments of a claim were not run."""
    return f"Not run: {joined_names(labels)}."


def not_measured_sentence(metric: str, statistic: str, tools: Sequence[str]) -> str:
    """Return the sentence that no trial has a value of the claim's metric."""
    metric_text = metric if statistic == "value" else f"{metric} {statistic}"
    return f"No trial has a value of {metric_text}: {' and '.join(tools)} did not print it."


def joint_forecast_sentence(forecasts: Sequence[Forecast]) -> str:
    """Return the sentence on how many more blocks would decide all of several comparisons; "" if none are needed."""
    about = [f.about for f in forecasts if f.about is not None]
    if len(about) < len(forecasts):
        return "Not reachable at this noise (over 60 blocks): widen the margin or quieten the host."
    most = max(about, default=0)
    return f"About {pluralize(most, 'more block')} would decide." if most else ""


def slope_sentence(slope: float, interval: Interval, blocks: int, points: int) -> str:
    """Return the sentence on the log-log slope of rate over size, and on the cost that dominates at that slope.

    `interval` is the 90 % interval of the slope, `points` the number of sizes.
    """
    low, high = map(number_text, interval)
    cost = "the cost per byte rules, bytes per second hardly change" if slope < -0.9 else "both costs count"
    if slope > -0.1:
        cost = "the cost per request rules, the size hardly matters"
    text = f"log-log slope {number_text(slope)} (90{NBSP}% interval {low} to {high}), {points} sizes"
    text += f", {pluralize(blocks, 'block')}"
    return f"{text}: {cost}."


def too_few_blocks_sentence(blocks: int) -> str:
    """Return the sentence that there are too few complete blocks."""
    return f"Only {pluralize(blocks, 'complete block')}, {MIN_BLOCKS} are needed."


def error_trials_sentence(
    treatment_errors: ErrorSummary, against_errors: ErrorSummary, label: str, against: str
) -> str:
    """Return the sentence on the numbers of trials with errors of two treatments.

    `label` and `against` are their display names; the p-value and the ratio of rates are those of `treatment_errors`.
    """
    counts = [f"{e.trials_with_errors} of {e.trials} trials" for e in (treatment_errors, against_errors)]
    p = f"p {format_p_value(treatment_errors.p)}"
    return f"{label}: errors in {counts[0]}; {against}: in {counts[1]} ({p}){rate_ratio_text(treatment_errors)}."


def two_arms_text(treatment: tuple[int, int], against: tuple[int, int]) -> str:
    """Return a short text of two treatments; each tuple is its number of trials with errors, then of all trials."""
    return f"errors in {treatment[0]} of {treatment[1]} against {against[0]} of {against[1]} trials"


def few_errors_sentence(label: str, share: float, margin: float) -> str:
    """Return the sentence that at most `share` (0 to 1) of a treatment's trials have errors, less than `margin`."""
    least = _share_text(margin)
    return f"At most {_share_text(share)} of {label}’s trials have errors, less than the {least} that matters."


def error_forecast_sentence(blocks_run: int, decides: Callable[[int], bool]) -> str:
    """Return the sentence on how many more blocks would decide; `decides(n)`: whether n blocks in all suffice."""
    numbers = range(blocks_run + 1, MAX_FORECAST_BLOCKS + 1)
    more = next((blocks - blocks_run for blocks in numbers if decides(blocks)), None)
    if more is None:
        return "At these shares more blocks would not decide (over 60)."
    return f"At these shares about {pluralize(more, 'more block')} would decide."


def joined_names(labels: Iterable[str]) -> str:
    """Return names as one text, a long list shortened; they are separated by "; ", as names may contain commas."""
    return "; ".join(shorten_list(list(labels), MAX_NAMES))


def _share_text(share: float) -> str:
    return format_percent(share, 0, signed=False)
