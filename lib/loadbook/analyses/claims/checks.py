"""Checks of claims, one function per kind: a claim and a run in, a finding out; and the check of a whole study.

Direction is checked first, size after it. A claim is contradicted only by evidence against it; a claim that is merely
not shown is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, cast

import numpy as np

from loadbook.analyses.claims import text
from loadbook.analyses.claims.compute import ClaimFinding, ClaimResult, ClaimRun, assess_article
from loadbook.stats.compare import MIN_BLOCKS, MIN_SIGNED_BLOCKS
from loadbook.stats.errors import ALPHA
from loadbook.stats.headline import neutral_caption
from loadbook.stats.paired_tests import complete_blocks, paired_t, permutation_p, signed_rank
from loadbook.stats.results import Verdict
from loadbook.stats.saturation import saturation_of_run
from loadbook.stats.text import direction
from loadbook.stats.verdict import MAX_FORECAST_BLOCKS, decide_verdict, forecast_one_sided, loss_at_margin
from loadbook.store.tables import RunData, RunTables, strata_of
from loadbook.study.model import ERROR_CLAIM_KINDS, Claim

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.results import Analysis
    from loadbook.study.model import ClaimKind, Study

# share of trials with errors that a claim of errors means at least; the error rates of the checks hold at this share
MIN_FAILING_SHARE = 0.3


def check_claims(
    study: Study, data: RunTables | None = None, analysis: Analysis | None = None, level: float = 0.95
) -> list[ClaimResult]:
    """Check every claim that a study publishes, each under its own condition if the study analyses those separately.

    Parameters
    ----------
    study : gives the claims, in its order. A treatment that it has changed since the run counts as not run.
    data : a run of that study; None if there is none, and every claim is then not yet run.
    analysis : an analysis of `data` at `level` that was made already; its metric and baseline are used.
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
        article = assess_article(claim, study.validity.offered_ceiling, _pair_sd_log(claim, finding, run))
        margin = run.margin(claim) if run else claim.margin or study.margin
        results.append(ClaimResult(claim, text.criterion_text(claim, margin), finding, article))
    return results


def required_arms(claim: Claim) -> tuple[str, ...]:
    """Return the arms that a check needs; of the rivals of the best, some may be missing."""
    return (claim.treatment, claim.against) if claim.effective_kind == "best" else claim.treatments


def _check_claim(study: Study, run: ClaimRun | None, claim: Claim) -> ClaimFinding:
    missing = [n for n in required_arms(claim) if run and n not in run.treatments_run]
    if run is None:
        return ClaimFinding("not-run", text.no_run_sentence(study.name, _smallest_subset(study, claim)))
    if missing:
        labels = list(map(study.label, missing))
        return ClaimFinding("not-run", text.not_run_sentence(labels, study.name, _smallest_subset(study, claim)))
    if claim.effective_kind == "resource":  # it rests on traces, not on a comparison
        return check_resource(claim, run)
    if claim.effective_kind not in ERROR_CLAIM_KINDS and run.values(claim)["value"].isna().all():
        tools = study.tools_of(run.treatments_run)
        return ClaimFinding("unchecked", text.not_measured_sentence(*run.metric(claim), tools))
    analysis = run.analysis(claim)
    if not analysis.allows_headline and claim.effective_kind not in ERROR_CLAIM_KINDS:
        return ClaimFinding("unchecked", neutral_caption(analysis))
    if reason := analysis.stopping_state.pending_reason:
        return ClaimFinding("unchecked", f"{reason[0].upper()}{reason[1:]}.")
    return CHECKS[claim.effective_kind](claim, run)


def _smallest_subset(study: Study, claim: Claim) -> str | None:
    """Return the smallest subset of the study with all of the claim's arms; None if the study's own has them."""
    wanted = set(claim.treatments)
    if wanted <= set(study.treatments_in()):
        return None
    candidates = [name for name, arms in study.subsets.items() if wanted <= set(arms)]
    return min(candidates, key=lambda name: len(study.subsets[name]), default="all")


def _pair_sd_log(claim: Claim, finding: ClaimFinding, run: ClaimRun | None) -> float | None:
    """Return the scatter of a pair of trials: of the claim's own comparison, else the median of the run."""
    if finding.verdict and finding.verdict.comparison.sd_log:
        return finding.verdict.comparison.sd_log
    rows = run.analysis(claim).rows if run else ()
    sds = [sd for row in rows if row.verdict and (sd := row.verdict.comparison.sd_log)]
    return median(sds) if sds else None


def check_direction(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "X is faster" or "X is slower": holds if a difference of that direction is shown, however small."""
    verdict = run.joint_verdict(claim)
    sentence, claimed = run.sentence(claim, verdict), claim.claimed_effect
    if verdict.kind == "invalid":
        return ClaimFinding("unchecked", sentence, verdict)
    direction_shown = verdict.kind
    if verdict.kind == "small":
        direction_shown = "better" if _is_better(verdict) else "worse"
    if direction_shown == claim.effective_kind:
        size = f" {text.size_sentence(claimed, verdict.comparison.ci95 or (0.0, 0.0))}" if claimed is not None else ""
        return ClaimFinding("holds", sentence + size, verdict, _size_met(claim, run, verdict))
    if direction_shown in ("better", "worse"):
        return ClaimFinding("contradicted", sentence, verdict)
    if verdict.kind == "equivalent" and (claimed is None or abs(claimed) > verdict.margin):
        return ClaimFinding("contradicted", sentence, verdict)
    if verdict.kind == "equivalent" and claimed is not None:
        sentence += f" {text.small_claim_sentence(claimed)}"
    return ClaimFinding("undecided", sentence, verdict)


def _is_better(verdict: Verdict) -> bool:
    higher = direction(verdict.comparison.metric) == "higher"
    return ((verdict.comparison.effect or 0.0) > 0) == higher


def _size_met(claim: Claim, run: ClaimRun, verdict: Verdict) -> bool | None:
    """Return whether the article's size is met; a value at its offered rate is only a lower bound."""
    claimed, comparison = claim.claimed_effect, verdict.comparison
    if claimed is None or comparison.ci95 is None:
        return None
    larger = abs(comparison.effect or 0.0) > abs(claimed)
    return comparison.ci95[0] <= claimed <= comparison.ci95[1] or (larger and run.at_ceiling(claim, claim.value))


def check_best(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "X is best": holds if X beats every rival at 5 % (Gutmann and Maymin).

    Contradicted if a rival is ahead of it, p multiplied by their number (Bonferroni), or if its lead over `against` is
    smaller than the margin. Rivals that were not run leave it undecided.
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
        sentence = text.rival_ahead_sentence(run.sentence(claim, verdicts[rival], rival))
        return ClaimFinding("contradicted", sentence, main)
    if main and main.kind == "equivalent":
        return ClaimFinding("contradicted", main_sentence, main)
    tied = [n for n, v in verdicts.items() if not (_is_better(v) and _p_or_one(v) < 1 - v.comparison.level)]
    if tied:
        forecast = text.joint_forecast_sentence([forecast for n in tied if (forecast := verdicts[n].forecast)])
        names = [run.label(n) for n in tied]
        sentence = text.tied_sentence(run.label(claim.treatment), names, len(verdicts), forecast)
    else:
        sentence = text.ahead_sentence(
            run.label(claim.treatment), len(verdicts), max(map(_p_or_one, verdicts.values()))
        )
    missing = [name for name in rivals if name not in verdicts]
    if not_run := [run.label(n) for n in missing if n not in run.treatments_run]:
        sentence += f" {text.missing_arms_sentence(not_run)}"
    if not_compared := [run.label(n) for n in missing if n in run.treatments_run]:
        sentence += f" Not compared: {text.joined_names(not_compared)}."
    if tied or missing:
        return ClaimFinding("undecided", sentence, main)
    return ClaimFinding("holds", sentence, main, _size_met(claim, run, main) if main else None)


def _p_or_one(verdict: Verdict) -> float:
    return 1.0 if verdict.comparison.p is None else verdict.comparison.p


def check_non_inferiority(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "X costs nothing": holds if a loss beyond the margin is excluded (non-inferiority, one-sided 5 %)."""
    two_sided = run.joint_verdict(claim)
    better = direction(two_sided.comparison.metric)
    verdict = decide_verdict(
        two_sided.comparison, run.margin(claim), better, reason=two_sided.reason, hypothesis="non-inferiority"
    )
    outcomes = {"no-loss": "holds", "worse": "contradicted", "invalid": "unchecked"}
    outcome: text.ClaimOutcome = outcomes.get(verdict.kind, "undecided")  # type: ignore[assignment]
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
        sentence += f" {text.maybe_small_sentence(replace(verdict, forecast=forecast))}"
    return ClaimFinding("undecided", sentence, verdict)


def check_slope(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "the rate falls with size by this power": holds if the 90 % interval of the slope lies in the range.

    One slope per block (Theil-Sen over the sizes), then an interval over the blocks: the block is the unit, not the
    trial. Contradicted if the interval lies outside the range.
    """
    sizes = {name: run.study.levels_of(name)[claim.factors[0]] for name in claim.treatments}
    not_positive = [f"{run.label(n)} ({x})" for n, x in sizes.items() if not isinstance(x, int | float) or not x > 0]
    if not_positive or len(set(sizes.values())) < 2:
        return ClaimFinding("unchecked", text.no_slope_sentence(claim.factors[0], not_positive))
    if full := [run.label(name) for name in sizes if run.mostly_at_ceiling(name)]:
        return ClaimFinding("unchecked", text.all_served_sentence(full))
    slopes = block_slopes(claim, run, {name: float(x) for name, x in sizes.items()})
    if len(slopes) < MIN_BLOCKS:
        return ClaimFinding("unchecked", text.too_few_blocks_sentence(len(slopes), MIN_BLOCKS))
    slope, (low, high) = slope_interval(slopes)
    sentence = text.slope_sentence(slope, (low, high), len(slopes), len(sizes))
    short = text.slope_text(slope, (low, high))
    least, most = claim.slope or (0.0, 0.0)
    if least <= low and high <= most:
        return ClaimFinding("holds", sentence, short_evidence=short)
    return ClaimFinding("contradicted" if high < least or low > most else "undecided", sentence, short_evidence=short)


def block_slopes(claim: Claim, run: ClaimRun, sizes: dict[str, float]) -> np.ndarray:
    """Return the Theil-Sen slope of log value over log size of each block that has every size."""
    from scipy.stats import theilslopes

    table = complete_blocks(run.values(claim), list(sizes))
    x = np.log(list(sizes.values()))
    return np.array([theilslopes(np.log(row), x).slope for row in table.to_numpy(float)])


def slope_interval(slopes: np.ndarray) -> tuple[float, tuple[float, float]]:
    """Return the estimate of a slope and its 90 % interval over blocks: t below 10 blocks, else signed ranks."""
    test = signed_rank if len(slopes) >= MIN_SIGNED_BLOCKS else paired_t
    result = test(np.zeros_like(slopes), slopes, [0.10])
    bounds = result.intervals[0]
    assert bounds is not None  # 5 blocks have a 90 % interval by t, 10 by signed ranks
    return result.estimate, bounds


def check_resource(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "its CPU is full" or "2 GB is enough": holds if the use lies in the range in every trial.

    Contradicted if it lies outside in every trial, on the same side; for memory the highest use of all trials counts.
    """
    rows, label = _usage_rows(claim, run), run.label(claim.treatment)
    if rows is None or rows.empty or claim.used is None:
        return ClaimFinding("unchecked", text.not_monitored_sentence(claim, label))
    low, high = float(rows["least"].min()), float(rows["most"].max())
    if claim.resource == "memory":
        low = high = float(rows["peak"].max())
    sentence = text.usage_sentence(claim, label, low, high, int(rows["trials"].max()))
    short = text.usage_value_text(claim, float(rows["mean"].mean()) if claim.resource != "memory" else high)
    if claim.used[0] <= low and high <= claim.used[1]:
        return ClaimFinding("holds", sentence, short_evidence=short)
    outside = high < claim.used[0] or low > claim.used[1]
    return ClaimFinding("contradicted" if outside else "undecided", sentence, short_evidence=short)


def _usage_rows(claim: Claim, run: ClaimRun) -> pd.DataFrame | None:
    """Return the use of the resource on the role's hosts; None for a run without traces."""
    if not isinstance(run.data, RunData):
        return None
    usage = saturation_of_run(run.data)
    roles = usage["role"].str.split("/").map(lambda host_roles: claim.role in host_roles)
    rows = usage[roles.astype(bool) & (usage["treatment"] == claim.treatment) & (usage["resource"] == claim.resource)]
    return rows if claim.resource == "memory" else rows.dropna(subset=["mean"])


def check_more_errors(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "X brings errors": holds if errors occur in more trials (or more per attempt) than in the other arm.

    Contradicted if they occur in fewer, or if their share of trials is certainly below the margin.
    """
    return _check_errors(claim, run, "more")


def check_fewer_errors(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "X removes errors". Cannot be checked if the other arm had none, or certainly has next to none."""
    return _check_errors(claim, run, "fewer")


def _check_errors(claim: Claim, run: ClaimRun, expected: str) -> ClaimFinding:
    own, other = run.errors(claim.treatment, claim.against)
    if not own.trials or not other.trials:
        return ClaimFinding("unchecked", text.NO_ERRORS_COUNTED)
    label, against = run.label(claim.treatment), run.label(claim.against)
    sentence = text.error_trials_sentence(own, other, label, against)
    short = text.two_arms_text((own.trials_with_errors, own.trials), (other.trials_with_errors, other.trials))
    if own.rate_ratio is not None and (own.p or 0.0) >= ALPHA:
        short = text.per_request_text(own.rate_ratio)
    if own.kind in ("more", "fewer"):
        return ClaimFinding("holds" if own.kind == expected else "contradicted", sentence, short_evidence=short)
    margin = claim.margin or MIN_FAILING_SHARE
    if expected == "fewer":
        bound = failing_share_bound(other.trials_with_errors, other.trials)
        if not other.trials_with_errors or bound < margin:
            nothing = text.nothing_to_remove_sentence(against, bound)
            return ClaimFinding("unchecked", f"{sentence} {nothing}", short_evidence=short)
    elif (bound := failing_share_bound(own.trials_with_errors, own.trials)) < margin:
        few = text.few_errors_sentence(label, bound, margin)
        return ClaimFinding("contradicted", f"{sentence} {few}", short_evidence=short)
    shares = own.trials_with_errors / own.trials, other.trials_with_errors / other.trials
    forecast = _error_forecast(shares, min(own.trials, other.trials), margin if expected == "more" else 0.0)
    return ClaimFinding("undecided", f"{sentence} {text.error_forecast_sentence(forecast)}", short_evidence=short)


def failing_share_bound(failing: int, trials: int) -> float:
    """Return the largest share of trials with errors that so many allow (one-sided 95 %, Clopper and Pearson)."""
    from scipy.stats import binomtest

    return float(binomtest(failing, trials, alternative="less").proportion_ci(1 - ALPHA).high)


def _error_forecast(shares: tuple[float, float], blocks_run: int, margin: float) -> int | None:
    """Return how many more blocks decide if the shares of trials with errors stay; None if more than 60 in all.

    They decide if the arms differ, or if the first arm's share is certainly below the margin.
    """
    from scipy.stats import fisher_exact

    for blocks in range(blocks_run + 1, MAX_FORECAST_BLOCKS + 1):
        failing = [round(share * blocks) for share in shares]
        differ = fisher_exact([[k, blocks - k] for k in failing]).pvalue < ALPHA
        if differ or failing_share_bound(failing[0], blocks) < margin:
            return blocks - blocks_run
    return None


FactorCell = tuple[bool, bool]  # whether the cause and whether the remedy is on
BOTH, CAUSE, REMEDY, NEITHER = (True, True), (True, False), (False, True), (False, False)


def check_interaction(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Check "A brings errors and B removes them": B's effect on trials with errors differs with and without A.

    One contrast per block over the four cells, tested by its signs. Contradicted if the contrast points the other way,
    or if A alone certainly brings next to none.
    """
    cause, remedy = claim.factors
    names = {BOTH: f"{cause} with {remedy}", CAUSE: f"{cause} alone", REMEDY: f"{remedy} alone",
             NEITHER: f"neither {cause} nor {remedy}"}  # fmt: skip
    cells = _arms_by_cell(claim, run)
    empty = [names[cell] for cell, arms in cells.items() if not arms]
    if empty:
        return ClaimFinding("not-run", text.missing_arms_sentence(empty))
    table = run.failing_trials([arm for arms in cells.values() for arm in arms])
    if len(table) < MIN_BLOCKS:
        return ClaimFinding("unchecked", text.too_few_blocks_sentence(len(table), MIN_BLOCKS))
    contrast = _interaction_contrast(cells, table)
    p = float(permutation_p(contrast[None, :])[0])
    failing = {cell: (int(table[arms].to_numpy().sum()), int(table[arms].size)) for cell, arms in cells.items()}
    sentence = text.cells_sentence([(names[cell], *count) for cell, count in failing.items()], p)
    finding = ClaimFinding("undecided", sentence, short_evidence=text.two_arms_text(failing[BOTH], failing[CAUSE]))
    if p < ALPHA and contrast.sum() > 0:
        return replace(finding, outcome="contradicted")
    share = {cell: count / trials for cell, (count, trials) in failing.items()}
    if p < ALPHA and share[CAUSE] > max(share[BOTH], share[NEITHER]):
        return replace(finding, outcome="holds")
    bound, margin = failing_share_bound(*failing[CAUSE]), claim.margin or MIN_FAILING_SHARE
    if bound < margin:
        few = text.few_errors_sentence(names[CAUSE], bound, margin)
        return replace(finding, outcome="contradicted", evidence=f"{sentence} {few}")
    forecast = _interaction_forecast(contrast, share[CAUSE], len(cells[CAUSE]), margin)
    return replace(finding, evidence=f"{sentence} {text.error_forecast_sentence(forecast)}")


def _arms_by_cell(claim: Claim, run: ClaimRun) -> dict[FactorCell, list[str]]:
    """Return the arms of each cell; a factor is on at the level that the claim's treatment has."""
    on = run.study.levels_of(claim.treatment)
    arm_names = claim.treatments if claim.among else [n for n, t in run.study.treatments.items() if not t.check]
    cells: dict[FactorCell, list[str]] = {cell: [] for cell in (BOTH, CAUSE, REMEDY, NEITHER)}
    for name in (n for n in arm_names if n in run.treatments_run):
        cause, remedy = (run.study.levels_of(name)[f] == on[f] for f in claim.factors)
        cells[cause, remedy].append(name)
    return cells


def _interaction_contrast(cells: dict[FactorCell, list[str]], table: pd.DataFrame) -> np.ndarray:
    """Return, per block, the remedy's change with the cause minus its change without, in whole numbers."""
    common_multiple = math.lcm(*(len(arms) for arms in cells.values()))
    shares = {
        cell: table[arms].sum(axis=1).to_numpy(float) * (common_multiple / len(arms)) for cell, arms in cells.items()
    }
    return np.asarray(shares[BOTH] - shares[CAUSE] - shares[REMEDY] + shares[NEITHER])


def _interaction_forecast(contrast: np.ndarray, cause_share: float, cause_arms: int, margin: float) -> int | None:
    """Return how many more blocks like these decide, None if more than 60 in all.

    They decide if the contrast is shown, or if the cause alone certainly brings errors in fewer trials than the margin.
    """
    for blocks in range(len(contrast) + 1, MAX_FORECAST_BLOCKS + 1):
        trials = blocks * cause_arms
        if permutation_p(np.resize(contrast, blocks)[None, :])[0] < ALPHA:
            return blocks - len(contrast)
        if failing_share_bound(round(cause_share * trials), trials) < margin:
            return blocks - len(contrast)
    return None


CHECKS: dict[ClaimKind, Callable[[Claim, ClaimRun], ClaimFinding]] = {
    "better": check_direction,
    "worse": check_direction,
    "best": check_best,
    "no-loss": check_non_inferiority,
    "equivalent": check_equivalence,
    "fewer-errors": check_fewer_errors,
    "more-errors": check_more_errors,
    "interaction": check_interaction,
    "slope": check_slope,
    "resource": check_resource,
}
