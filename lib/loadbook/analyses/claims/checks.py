"""What a check of a claim found.

Could the article's own numbers have shown what it says? One run each, by rules that know nothing of ours.

The check of claims about a curve: the log-log slope of a metric over the numbers of a factor (page size, say).

The check of claims about resources: the small balancer's CPU is full, so much memory is enough.

The checks of claims about errors; the trial is the unit: in how many did any occur (statistics.md 3.7).

The checks of claims about values, one function per kind: a claim and a run in, what was found out.

Direction is judged first, size after it. A claim is contradicted only by evidence against it; what is merely not shown
is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from loadbook.analyses.claims import text
from loadbook.analyses.claims.text import ClaimOutcome, CouldShow
from loadbook.core.metrics import get_metric
from loadbook.stats.compare import MIN_BLOCKS, MIN_SIGNED_BLOCKS
from loadbook.stats.errors import ALPHA
from loadbook.stats.results import Verdict
from loadbook.stats.saturation import saturation_of_run
from loadbook.stats.tests import complete_blocks, paired_t, permutation_p, signed_rank
from loadbook.stats.text import direction
from loadbook.stats.verdict import MAX_FORECAST_BLOCKS, decide_verdict, forecast_one_sided, loss_at_margin
from loadbook.store.tables import RunData
from loadbook.study.claims import ERROR_CLAIM_KINDS, Claim

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.analyses.claims.compute import ClaimRun
    from loadbook.stats.results import ErrorSummary
    from loadbook.study.claims import ClaimKind


@dataclass(frozen=True)
class ClaimFinding:
    """How a claim fares and the sentences that say why.

    `verdict` is the comparison to draw beside the article's two values, where there is one; `size_met` says of a claim
    that holds whether the article's size is met, too (None: not asked). `short_evidence` is the evidence in few
    characters
    where there is no verdict to draw.
    """

    outcome: ClaimOutcome
    evidence: str
    verdict: Verdict | None = None
    size_met: bool | None = None
    short_evidence: str = ""


MAX_CHANCE = 0.05


@dataclass(frozen=True)
class ArticleEvidence:
    """The article's evidence: its change (ratio minus 1), and whether it could have shown the claim.

    `at_ceiling`: the value lies at the offered rate, so it is only a lower bound; `both_at_ceiling`: both values do.
    """

    effect: float | None
    at_ceiling: bool
    both_at_ceiling: bool
    could_show: CouldShow
    sentence: str


def assess_article(claim: Claim, ceiling: float, scatter: float | None) -> ArticleEvidence:
    """Return what the article's numbers are worth.

    Parameters
    ----------
    ceiling : share of the offered rate from which a rate is the tool's setting.
    scatter : standard deviation of the paired log ratio of two single trials, as seen here; None: not known.
    """
    value, other, effect = claim.value or 0.0, claim.against_value or 0.0, claim.claimed_effect
    limit = ceiling * claim.offered_per_s if claim.offered_per_s else math.inf
    high, blind = value >= limit, min(value, other) >= limit
    could, sentence = _article_worth(claim, effect, high, blind, scatter)
    return ArticleEvidence(effect, high, blind, could, sentence)


def _article_worth(
    claim: Claim, effect: float | None, high: bool, blind: bool, scatter: float | None
) -> tuple[CouldShow, str]:
    if claim.effective_kind in ERROR_CLAIM_KINDS:
        has_counts = claim.errors is not None and claim.against_errors is not None
        return ("no", text.ONE_RUN_ERRORS) if has_counts else ("not known", text.NO_COUNTS)
    if effect is None:
        return "not known", text.NO_NUMBERS
    if blind:
        return "no", text.BOTH_OFFERED
    if claim.effective_kind in ("equivalent", "no-loss"):
        return "no", text.ONE_RUN_EXCLUDES_NOTHING
    if claim.effective_kind == "slope":
        return "no", text.ONE_RUN_SLOPE
    if _points_other_way(claim, effect):
        return "no", text.OPPOSITE
    if not scatter:
        return "not known", text.SCATTER_UNKNOWN
    return _worth_against_scatter(claim, effect, high, scatter)


def _points_other_way(claim: Claim, effect: float) -> bool:
    """Tell whether the article's own numbers point the other way."""
    lower = get_metric(claim.metric).better == "lower"
    return (effect > 0) == ((claim.effective_kind == "worse") != lower)


def _worth_against_scatter(claim: Claim, effect: float, high: bool, scatter: float) -> tuple[CouldShow, str]:
    """Compare a single pair's difference with what equal pairs show, their scatter being ours (normal)."""
    chance = math.erfc(abs(math.log1p(effect)) / scatter / math.sqrt(2))
    sentence = text.chance_sentence(chance)
    if chance >= MAX_CHANCE:
        return "no", sentence
    if claim.effective_kind == "best":
        return "in part", f"{sentence} {text.LARGEST_OF_SEVERAL}"
    return ("in part", f"{sentence} {text.LOWER_BOUND}") if high else ("yes", sentence)


def check_slope(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "the rate falls with size by this power": holds if the 90 % interval of the slope lies in the range.

    One slope per block (Theil-Sen over the sizes), then an interval over the blocks: the block is the unit, not the
    trial. Contradicted if the interval lies outside the range.
    """
    sizes = {name: run.study.levels_of(name)[claim.factors[0]] for name in claim.treatments}
    strange = [f"{run.label(n)} ({x})" for n, x in sizes.items() if not isinstance(x, int | float) or not x > 0]
    if strange or len(set(sizes.values())) < 2:
        return ClaimFinding("unchecked", text.no_slope_sentence(claim.factors[0], strange))
    full = [run.label(name) for name in sizes if run.mostly_at_ceiling(name)]
    if full:
        return ClaimFinding("unchecked", text.all_served_sentence(full))
    slopes = block_slopes(claim, run, {name: float(x) for name, x in sizes.items()})
    if len(slopes) < MIN_BLOCKS:
        return ClaimFinding("unchecked", text.too_few_blocks_sentence(len(slopes), MIN_BLOCKS))
    middle, (low, high) = slope_interval(slopes)
    sentence = text.slope_sentence(middle, (low, high), len(slopes), len(sizes))
    number = text.slope_text(middle, (low, high))
    least, most = claim.slope or (0.0, 0.0)
    if least <= low and high <= most:
        return ClaimFinding("holds", sentence, short_evidence=number)
    return ClaimFinding("contradicted" if high < least or low > most else "undecided", sentence, short_evidence=number)


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
    """Judge "its CPU is full" or "2 GB is enough": holds if what was used lies in the range in every trial.

    Contradicted if it lies outside in every trial, on the same side; of memory the highest use of all trials counts.
    """
    rows, label = _usage_rows(claim, run), run.label(claim.treatment)
    if rows is None or rows.empty or claim.used is None:
        return ClaimFinding("unchecked", text.not_monitored_sentence(claim, label))
    low, high = float(rows["least"].min()), float(rows["most"].max())
    if claim.resource == "memory":
        low = high = float(rows["peak"].max())
    sentence = text.usage_sentence(claim, label, low, high, int(rows["trials"].max()))
    number = text.usage_value_text(claim, float(rows["mean"].mean()) if claim.resource != "memory" else high)
    if claim.used[0] <= low and high <= claim.used[1]:
        return ClaimFinding("holds", sentence, short_evidence=number)
    outside = high < claim.used[0] or low > claim.used[1]
    return ClaimFinding("contradicted" if outside else "undecided", sentence, short_evidence=number)


def _usage_rows(claim: Claim, run: ClaimRun) -> pd.DataFrame | None:
    """Return what is known of the resource on the role's hosts; None of a run without traces."""
    if not isinstance(run.data, RunData):
        return None
    full = saturation_of_run(run.data)
    roles = full["role"].str.split("/").map(lambda host_roles: claim.role in host_roles)
    rows = full[roles.astype(bool) & (full["treatment"] == claim.treatment) & (full["resource"] == claim.resource)]
    return rows if claim.resource == "memory" else rows.dropna(subset=["mean"])


# share of trials with errors that a claim of errors means at least; 3.7 measured its methods at this share
MIN_FAILING_SHARE = 0.3


def check_more_errors(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "X brings errors": holds if they occur in more trials (or more per attempt) than in the other arm.

    Contradicted if they occur in fewer, or certainly in fewer trials than the margin.
    """
    return _check_errors(claim, run, "more")


def check_fewer_errors(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "X removes errors". Where the other arm certainly has next to none, there is nothing to remove."""
    return _check_errors(claim, run, "fewer")


def _check_errors(claim: Claim, run: ClaimRun, expected: str) -> ClaimFinding:
    treatment_errors, against_errors = run.errors(claim.treatment, claim.against)
    if not treatment_errors.trials or not against_errors.trials:
        return ClaimFinding("unchecked", text.no_errors_counted_sentence())
    label, against = run.label(claim.treatment), run.label(claim.against)
    sentence = text.error_trials_sentence(treatment_errors, against_errors, label, against)
    number = text.two_arms_text(*((e.trials_with_errors, e.trials) for e in (treatment_errors, against_errors)))
    if treatment_errors.rate_ratio is not None and (treatment_errors.p or 0.0) >= ALPHA:
        number = text.per_request_text(treatment_errors.rate_ratio)
    if treatment_errors.kind in ("more", "fewer"):
        return ClaimFinding(
            "holds" if treatment_errors.kind == expected else "contradicted", sentence, short_evidence=number
        )
    margin = claim.margin or MIN_FAILING_SHARE
    many, name = (treatment_errors, label) if expected == "more" else (against_errors, against)
    bound = failing_share_bound(many.trials_with_errors, many.trials)
    if bound < margin and expected == "more":
        return ClaimFinding(
            "contradicted", f"{sentence} {text.few_errors_sentence(name, bound, margin)}", short_evidence=number
        )
    if bound < margin:
        return ClaimFinding(
            "unchecked", f"{sentence} {text.nothing_to_remove_sentence(name, bound)}", short_evidence=number
        )
    return ClaimFinding(
        "undecided",
        f"{sentence} {text.error_forecast_sentence(_error_forecast(treatment_errors, against_errors, margin))}",
        short_evidence=number,
    )


def failing_share_bound(failing: int, trials: int) -> float:
    """Return the largest share of trials with errors that so many allow (one-sided 95 %, Clopper and Pearson)."""
    from scipy.stats import binomtest

    return float(binomtest(failing, trials, alternative="less").proportion_ci(1 - ALPHA).high)


def _error_forecast(treatment_errors: ErrorSummary, against_errors: ErrorSummary, margin: float) -> int | None:
    """Return how many more blocks decide if the shares of trials with errors stay, None if more than 60 in all."""
    from scipy.stats import fisher_exact

    shares = [e.trials_with_errors / e.trials for e in (treatment_errors, against_errors)]
    done = min(treatment_errors.trials, against_errors.trials)
    for blocks in range(done + 1, MAX_FORECAST_BLOCKS + 1):
        failing = [round(share * blocks) for share in shares]
        differ = fisher_exact([[k, blocks - k] for k in failing]).pvalue < ALPHA
        if differ or all(failing_share_bound(k, blocks) < margin for k in failing):
            return blocks - done
    return None


def check_interaction(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "A brings errors and B removes them": B's effect on trials with errors differs with and without A.

    One contrast per block over the four cells, judged against its signs (statistics.md 3.1, 3.6). Contradicted if the
    contrast points the other way, or if A alone certainly brings next to none.
    """
    cells = _arms_by_cell(claim, run)
    empty = [_cell_name(claim, cell) for cell, arms in cells.items() if not arms]
    if empty:
        return ClaimFinding("not-run", text.missing_arms_sentence(empty))
    table = run.failing_trials([arm for arms in cells.values() for arm in arms])
    if len(table) < MIN_BLOCKS:
        return ClaimFinding("unchecked", text.too_few_blocks_sentence(len(table), MIN_BLOCKS))
    contrast = _interaction_contrast(cells, table)
    p = float(permutation_p(contrast[None, :])[0])
    failing = {cell: (int(table[arms].to_numpy().sum()), int(table[arms].size)) for cell, arms in cells.items()}
    sentence = text.cells_sentence([(_cell_name(claim, cell), *count) for cell, count in failing.items()], p)
    finding = ClaimFinding("undecided", sentence, short_evidence=text.two_arms_text(failing[BOTH], failing[CAUSE]))
    if p < ALPHA and contrast.sum() > 0:
        return replace(finding, outcome="contradicted")
    share = {cell: count / trials for cell, (count, trials) in failing.items()}
    if p < ALPHA and share[CAUSE] > max(share[BOTH], share[NEITHER]):
        return replace(finding, outcome="holds")
    bound, margin = failing_share_bound(*failing[CAUSE]), claim.margin or MIN_FAILING_SHARE
    if bound < margin:
        few = text.few_errors_sentence(_cell_name(claim, CAUSE), bound, margin)
        return replace(finding, outcome="contradicted", evidence=f"{sentence} {few}")
    return replace(finding, evidence=f"{sentence} {text.error_forecast_sentence(_interaction_forecast(contrast))}")


FactorCell = tuple[bool, bool]  # whether the cause and whether the remedy is on
BOTH, CAUSE, REMEDY, NEITHER = (True, True), (True, False), (False, True), (False, False)


def _arms_by_cell(claim: Claim, run: ClaimRun) -> dict[FactorCell, list[str]]:
    """Return the arms of each cell; a factor is on where it has the level that the claim's treatment has."""
    on = run.study.levels_of(claim.treatment)
    arm_names = claim.treatments if claim.among else [n for n, t in run.study.treatments.items() if not t.check]
    cells: dict[FactorCell, list[str]] = {cell: [] for cell in (BOTH, CAUSE, REMEDY, NEITHER)}
    for name in (n for n in arm_names if n in run.treatments_run):
        cause, remedy = (run.study.levels_of(name)[f] == on[f] for f in claim.factors)
        cells[cause, remedy].append(name)
    return cells


def _interaction_contrast(cells: dict[FactorCell, list[str]], table: pd.DataFrame) -> np.ndarray:
    """Return, per block, what the remedy changes with the cause minus what it changes without, in whole numbers."""
    common_multiple = math.lcm(*(len(arms) for arms in cells.values()))
    shares = {
        cell: table[arms].sum(axis=1).to_numpy(float) * (common_multiple / len(arms)) for cell, arms in cells.items()
    }
    return np.asarray(shares[BOTH] - shares[CAUSE] - shares[REMEDY] + shares[NEITHER])


def _cell_name(claim: Claim, cell: FactorCell) -> str:
    cause, remedy = claim.factors
    both, neither = f"{cause} with {remedy}", f"neither {cause} nor {remedy}"
    return {BOTH: both, CAUSE: f"{cause} alone", REMEDY: f"{remedy} alone", NEITHER: neither}[cell]


def _interaction_forecast(values: np.ndarray) -> int | None:
    """Return how many more blocks like these show the contrast, None if more than 60 in all."""
    for blocks in range(len(values) + 1, MAX_FORECAST_BLOCKS + 1):
        if permutation_p(np.resize(values, blocks)[None, :])[0] < ALPHA:
            return blocks - len(values)
    return None


ClaimCheck = Callable[["Claim", "ClaimRun"], ClaimFinding]


def check_direction(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "X is faster" or "X is slower": holds if a difference of that direction is shown, however small."""
    verdict = run.joint_verdict(claim)
    sentence, claimed = run.sentence(claim, verdict), claim.claimed_effect
    side = _shown_direction(verdict)
    if verdict.kind == "invalid":
        return ClaimFinding("unchecked", sentence, verdict)
    if side == claim.effective_kind:
        size = f" {text.size_sentence(claimed, verdict.comparison.ci95 or (0.0, 0.0))}" if claimed is not None else ""
        return ClaimFinding("holds", sentence + size, verdict, _size_met(claim, run, verdict))
    if side:
        return ClaimFinding("contradicted", sentence, verdict)
    if verdict.kind == "equivalent" and (claimed is None or abs(claimed) > verdict.margin):
        return ClaimFinding("contradicted", sentence, verdict)
    if verdict.kind == "equivalent" and claimed is not None:
        return ClaimFinding("undecided", f"{sentence} {text.small_claim_sentence(claimed)}", verdict)
    return ClaimFinding("undecided", sentence, verdict)


def _shown_direction(verdict: Verdict) -> ClaimKind | None:
    """Return the direction that is shown: that of a small difference counts, too."""
    if verdict.kind == "better":
        return "better"
    if verdict.kind == "worse":
        return "worse"
    if verdict.kind != "small":
        return None
    higher = direction(verdict.comparison.metric) == "higher"
    return "better" if ((verdict.comparison.effect or 0.0) > 0) == higher else "worse"


def _size_met(claim: Claim, run: ClaimRun, verdict: Verdict) -> bool | None:
    """Tell whether the article's size is met; a value at its offered rate is only a lower bound."""
    claimed, comparison = claim.claimed_effect, verdict.comparison
    if claimed is None or comparison.ci95 is None:
        return None
    larger = abs(comparison.effect or 0.0) > abs(claimed)
    return comparison.ci95[0] <= claimed <= comparison.ci95[1] or (larger and run.at_ceiling(claim, claim.value))


def check_best(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "X is best": holds if X beats every rival at 5 % (Gutmann and Maymin; statistics.md 3.4).

    Contradicted if a rival is ahead of it, allowing for their number, or if its lead over `against` is
    smaller than the margin. Rivals that were not run leave it undecided.
    """
    rivals = [name for name in dict.fromkeys((claim.against, *claim.among)) if name != claim.treatment]
    verdicts = {name: run.verdict(claim, claim.treatment, name) for name in rivals if name in run.treatments_run}
    main_verdict = verdicts.get(claim.against)
    valid = {name: v for name, v in verdicts.items() if v.kind != "invalid"}
    if not valid:
        sentence = run.sentence(claim, main_verdict, claim.treatment, claim.against) if main_verdict else ""
        return ClaimFinding("unchecked", sentence, main_verdict)
    ahead = _rivals_ahead(valid)
    if ahead:
        rival = min(ahead, key=lambda name: _p_or_one(valid[name]))
        return ClaimFinding(
            "contradicted",
            text.rival_ahead_sentence(run.sentence(claim, valid[rival], claim.treatment, rival)),
            main_verdict,
        )
    if main_verdict and main_verdict.kind == "equivalent":
        return ClaimFinding(
            "contradicted", run.sentence(claim, main_verdict, claim.treatment, claim.against), main_verdict
        )
    return _check_lead(claim, run, rivals, valid, main_verdict)


def _rivals_ahead(verdicts: dict[str, Verdict]) -> list[str]:
    """Return the rivals that are shown to be ahead, p multiplied by their number (Bonferroni)."""
    return [
        n for n, v in verdicts.items() if not _is_better(v) and _p_or_one(v) * len(verdicts) < 1 - v.comparison.level
    ]


def _p_or_one(verdict: Verdict) -> float:
    return 1.0 if verdict.comparison.p is None else verdict.comparison.p


def _is_better(verdict: Verdict) -> bool:
    higher = direction(verdict.comparison.metric) == "higher"
    return ((verdict.comparison.effect or 0.0) > 0) == higher


def _check_lead(
    claim: Claim, run: ClaimRun, rivals: list[str], verdicts: dict[str, Verdict], main_verdict: Verdict | None
) -> ClaimFinding:
    """Return whether a treatment that no rival beats is itself ahead of all of them."""
    tied = [n for n, v in verdicts.items() if not (_is_better(v) and _p_or_one(v) < 1 - v.comparison.level)]
    missing = [name for name in rivals if name not in verdicts]
    invalid = [name for name in missing if name in run.treatments_run]
    label = run.label(claim.treatment)
    if tied:
        forecasts = [v.forecast for n, v in verdicts.items() if n in tied and v.forecast]
        sentence = text.tied_sentence(
            label, [run.label(n) for n in tied], len(verdicts), text.joint_forecast_sentence(forecasts)
        )
    else:
        sentence = text.ahead_sentence(label, len(verdicts), max(map(_p_or_one, verdicts.values())))
    for to_sentence, names in (
        (text.missing_arms_sentence, set(missing) - set(invalid)),
        (text.not_compared_sentence, invalid),
    ):
        sentence += f" {to_sentence([run.label(n) for n in missing if n in names])}" if names else ""
    if tied or missing:
        return ClaimFinding("undecided", sentence, main_verdict)
    return ClaimFinding("holds", sentence, main_verdict, _size_met(claim, run, main_verdict) if main_verdict else None)


def check_non_inferiority(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "X costs nothing": holds if a loss beyond the margin is excluded (non-inferiority, one-sided 5 %)."""
    two_sided = run.joint_verdict(claim)
    better = direction(two_sided.comparison.metric)
    verdict = decide_verdict(
        two_sided.comparison, run.margin(claim), better, reason=two_sided.reason, hypothesis="non-inferiority"
    )
    outcomes = {"no-loss": "holds", "worse": "contradicted", "invalid": "unchecked"}
    outcome: text.ClaimOutcome = outcomes.get(verdict.kind, "undecided")  # type: ignore[assignment]
    return ClaimFinding(outcome, run.sentence(claim, verdict), verdict)


def check_equivalence(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "X and Y hardly differ": holds if a difference beyond the margin is excluded.

    Contradicted only if the whole 90 % interval lies beyond the margin.
    """
    verdict = run.joint_verdict(claim)
    sentence, kind = run.sentence(claim, verdict), verdict.kind
    if kind in ("equivalent", "small"):
        return ClaimFinding("holds", sentence, verdict)
    if kind == "invalid":
        return ClaimFinding("unchecked", sentence, verdict)
    low, high = verdict.comparison.ci90 or (0.0, 0.0)
    edges = loss_at_margin(verdict.margin, "higher"), loss_at_margin(verdict.margin, "lower")
    if high < edges[0] or low > edges[1]:
        return ClaimFinding("contradicted", sentence, verdict)
    if kind in ("better", "worse"):
        distance = abs(math.log1p(verdict.margin) - abs(math.log1p(verdict.comparison.effect or 0.0)))
        sentence += (
            f" {text.maybe_small_sentence(replace(verdict, forecast=forecast_one_sided(verdict.comparison, distance)))}"
        )
    return ClaimFinding("undecided", sentence, verdict)


CHECKS: dict[ClaimKind, ClaimCheck] = {
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
