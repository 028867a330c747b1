"""Comparisons of two arms (treatments or baseline) over their complete blocks, and of families of arms.

The p-value comes from a test in `TESTS` (modules `paired_tests` and `sequential`). A family compares treatments with a
baseline, with the treatment before them, or with the arm observed best, and adjusts the p-values.

All comparisons of a family share their permutations: a swap gives a block the same sign in each of them, which keeps
their joint distribution (neighbours on a ladder share an arm), and with it the error rate of the family.

The arm observed best was chosen by the same values, so its own p would be too small. An arm is behind if *any* other
beats it: its adjusted p is that of the best arm among all arms compared with it. Whichever arm is truly best, it is
called behind in at most 5 % of studies (Hsu's comparisons with the best, by permutation). An arm is the best only if it
beats every other at the plain level: the largest p counts, and is the adjusted p of all (Gutmann and Maymin).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

import numpy as np

from loadbook.core.metrics import Direction
from loadbook.core.units import format_percent, pluralize
from loadbook.stats import diagnostics, paired_tests
from loadbook.stats.results import Comparison, Contrasts, Method
from loadbook.stats.sequential import always_valid_paired_t
from loadbook.study.limits import StoppingRuleName

if TYPE_CHECKING:
    import pandas as pd

MIN_BLOCKS = 5
MIN_RANK_BLOCKS = 8
MIN_SIGNED_BLOCKS = 10
MAX_INCOMPLETE_SHARE = 0.20  # of the blocks
TESTS = {
    "blocked-rank": paired_tests.blocked_rank,
    "signed-rank": paired_tests.signed_rank,
    "paired-t": paired_tests.paired_t,
    "always-valid-t": always_valid_paired_t,
}

UNEQUAL_VARIANCES = "the arms scatter differently; compared within blocks only"
IDENTICAL_VALUES = "identical values; metric too coarse?"
CONSTANT_RATIO = "every block gives this very ratio; metric too coarse?"


class ComparisonOptions(TypedDict, total=False):
    """Options of `compare` and of the functions for families.

    `metric` and `statistic` name the values. `level` is that of the two-sided interval and of the two one-sided tests
    that give the second interval. Rule "always-valid" uses the always-valid t test from 5 blocks on. `names_reference`:
    the sentences in `Comparison.flags` contain the name of the reference instead of "the baseline".
    """

    metric: str
    statistic: str
    level: float
    rule: StoppingRuleName
    names_reference: bool


def compare(values: pd.DataFrame, treatment: str, baseline: str, **options: Unpack[ComparisonOptions]) -> Comparison:
    """Compare a treatment with the baseline over the blocks in which both have a value.

    `values` has one row per trial: treatment, block, value (any unit), and optionally valid. Fewer than 5 blocks: no
    test. 5 to 7: paired t test on logarithms. From 8: blocked rank test, exact up to 12 blocks; if the scatter of the
    arms differs, signed ranks (from 10 blocks) or paired t test. An effect above 0 means that the treatment has the
    larger values.
    """
    return compare_pairs(paired_tests.pair_arms(values, treatment, baseline), **options)


def compare_pairs(
    pairs: paired_tests.PairedLogs,
    *,
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    family_size: int = 1,
    rule: StoppingRuleName = "fixed",
    names_reference: bool = False,
) -> Comparison:
    """Compare two paired arms; `ci_family` allows for `family_size` comparisons that share one error rate."""
    method = choose_method(pairs, rule)
    differences = pairs.other - pairs.base
    alpha = 1 - level
    alphas = [alpha, 2 * alpha] + ([alpha / family_size] if family_size > 1 else [])
    if method:
        result = TESTS[method](pairs.base, pairs.other, alphas)
    else:
        every_difference = np.subtract.outer(pairs.other, pairs.base)
        estimate = float(np.median(every_difference)) if every_difference.size else math.nan
        result = paired_tests.PairedTestResult(estimate, math.nan, [])
    intervals = [paired_tests.effect_interval_from_logs(interval) for interval in result.intervals] or [None, None]
    ci95, ci90, *family_intervals = intervals
    return Comparison(
        treatment=pairs.treatment,
        baseline=pairs.baseline,
        metric=metric,
        statistic=statistic,
        blocks=len(pairs.blocks),
        excluded=pairs.incomplete,
        method=method,
        effect=None if math.isnan(result.estimate) else paired_tests.effect_from_log(result.estimate),
        ci95=ci95,
        ci90=ci90,
        p=result.p if method else None,
        ci_family=family_intervals[0] if family_intervals else None,
        flags=_comparison_flags(pairs, method, pairs.baseline if names_reference else "the baseline"),
        level=level,
        family_size=family_size,
        sd_log=float(differences.std(ddof=1)) if len(differences) > 1 else None,
    )


def choose_method(pairs: paired_tests.PairedLogs, rule: StoppingRuleName = "fixed") -> Method | None:
    """Return the name of the test for these pairs; None below 5 complete blocks."""
    blocks = len(pairs.blocks)
    if blocks < MIN_BLOCKS:
        return None
    if rule == "always-valid":
        return "always-valid-t"
    if blocks < MIN_RANK_BLOCKS:
        return "paired-t"
    if paired_tests.variances_differ(pairs.base, pairs.other):
        return "signed-rank" if blocks >= MIN_SIGNED_BLOCKS else "paired-t"
    return "blocked-rank"


def insufficient_blocks(complete: int, incomplete: int) -> str | None:
    """Return the reason against a verdict: too few complete or too many incomplete blocks; None if neither."""
    if complete < MIN_BLOCKS:
        return f"only {pluralize(complete, 'complete block')}, {MIN_BLOCKS} are needed"
    if incomplete > MAX_INCOMPLETE_SHARE * (complete + incomplete):
        limit = format_percent(MAX_INCOMPLETE_SHARE, 0, signed=False)
        return f"{incomplete} of {complete + incomplete} blocks are incomplete, more than {limit}"
    return None


def _comparison_flags(pairs: paired_tests.PairedLogs, method: Method | None, reference: str) -> tuple[str, ...]:
    flags = []
    if pairs.unusable:
        reason = "does not count (not valid, or its value is missing or not above zero)"
        flags.append(_left_out_flag(pairs.unusable, reason, reference))
    if pairs.incomplete > pairs.unusable:
        flags.append(_left_out_flag(pairs.incomplete - pairs.unusable, "is not there", reference))
    if len(pairs.blocks) >= MIN_RANK_BLOCKS and method in ("signed-rank", "paired-t"):
        flags.append(UNEQUAL_VARIANCES)
    if method and np.array_equal(pairs.base, pairs.other):
        flags.append(IDENTICAL_VALUES)
    elif method and np.ptp(pairs.other - pairs.base) < paired_tests.LOG_TOLERANCE:
        flags.append(CONSTANT_RATIO)
    if method:
        flags += diagnostics.stability_flags(pairs.blocks, pairs.base, pairs.other)
    return tuple(flags)


def _left_out_flag(blocks: int, reason: str, reference: str) -> str:
    noun, subject = ("blocks", "those blocks are") if blocks > 1 else ("block", "that block is")
    return f"in {blocks} {noun} a trial of the treatment or of {reference} {reason}; {subject} left out"


MIN_ARMS = 3  # fewer arms have no best one


class BestArm(NamedTuple):
    """Best arm, if it beats every other; else the tied arms, leader first, and whether they beat all others."""

    best: str | None
    tied: tuple[str, ...]
    ties_beat_rest: bool


NO_BEST_ARM = BestArm(None, (), False)


class DeclaredComparisons(NamedTuple):
    """Comparisons of a family, the arm that is only a reference, and the best arm (None if not determined)."""

    reference: str
    comparisons: list[Comparison]
    best_arm: BestArm | None = None


def compare_contrasts(
    values: pd.DataFrame, contrasts: Sequence[tuple[str, str]], **options: Unpack[ComparisonOptions]
) -> list[Comparison]:
    """Compare the first arm of every contrast with the second, with p adjusted for all of them.

    `values` are as in `compare`. The family is all comparisons that allow a verdict. If each has 8 blocks or more, p
    is adjusted step-down by joint permutations; otherwise, and under the always-valid rule, by Holm's method. An
    adjusted p is never below its own.
    """
    pairs = [paired_tests.pair_arms(values, one, other) for one, other in contrasts]
    in_family = [k for k, p in enumerate(pairs) if insufficient_blocks(len(p.blocks), p.incomplete) is None]
    sizes = [len(in_family) if k in in_family else 1 for k in range(len(pairs))]
    comparisons = [compare_pairs(p, family_size=size, **options) for p, size in zip(pairs, sizes, strict=True)]
    if len(in_family) < 2:
        return comparisons
    plain = [comparisons[k].p for k in in_family]
    adjusted = _adjust_p([pairs[k] for k in in_family], plain, options.get("rule", "fixed"))
    for k, p_adjusted in zip(in_family, adjusted, strict=True):
        comparisons[k] = replace(comparisons[k], p_adjusted=max(p_adjusted, comparisons[k].p or 0.0))
    return comparisons


def _adjust_p(
    pairs: Sequence[paired_tests.PairedLogs], plain: Sequence[float | None], rule: StoppingRuleName
) -> list[float]:
    """Return p-values adjusted for the whole family; `plain` has the unadjusted ones, None if not tested."""
    if rule != "always-valid" and all(len(p.blocks) >= MIN_RANK_BLOCKS for p in pairs):
        return step_down_p(pairs)
    return paired_tests.adjust_holm(plain)


def step_down_p(pairs: Sequence[paired_tests.PairedLogs]) -> list[float]:
    """Return a p-value per comparison, adjusted by the largest statistic under shared label swaps.

    The method is that of Westfall and Young, step-down. A block that is missing in a comparison counts as no
    difference. Exact for up to 12 blocks.
    """
    differences = _rank_differences_of(pairs)
    lengths = np.sqrt((differences**2).sum(axis=1, keepdims=True))
    z = np.divide(differences, lengths, out=np.zeros_like(differences), where=lengths > 0)
    by_name = [z[k] for k in sorted(range(len(pairs)), key=lambda k: pairs[k].treatment)]
    z = z[:, np.lexsort(by_name)]  # sampled swaps must not depend on the names of blocks
    permuted = np.abs(z @ paired_tests.label_signs(z.shape[1]).T.astype(float))
    return paired_tests.step_down_max(
        np.abs(z.sum(axis=1)), permuted, exact=z.shape[1] <= paired_tests.MAX_EXACT_BLOCKS
    )


def _rank_differences_of(pairs: Sequence[paired_tests.PairedLogs]) -> np.ndarray:
    """Return rank differences, one row per comparison, one column per block; 0 where the block is missing."""
    if len({p.blocks for p in pairs}) == 1:
        return paired_tests.rank_differences(np.stack([p.base for p in pairs]), np.stack([p.other for p in pairs]))
    blocks = sorted({block for p in pairs for block in p.blocks}, key=repr)
    column = {block: k for k, block in enumerate(blocks)}
    differences = np.zeros((len(pairs), len(blocks)))
    for row, p in zip(differences, pairs, strict=True):
        row[[column[block] for block in p.blocks]] = paired_tests.rank_differences(p.base, p.other)
    return differences


class _ArmTests(NamedTuple):
    """Tests between any two arms, not adjusted for multiple comparisons."""

    values: pd.DataFrame
    better: Direction
    level: float
    rule: StoppingRuleName

    def ranked(self, arms: Sequence[str], baseline: str) -> list[str]:
        """Return the arms that have enough blocks for a test, the one observed best first."""
        sign = 1 if self.better == "higher" else -1
        tests = {name: _run_test(paired_tests.pair_arms(self.values, name, baseline)) for name in arms}
        estimate_by_arm = {name: sign * result.estimate for name, result in tests.items() if result}
        return sorted(estimate_by_arm, key=lambda name: -estimate_by_arm[name])

    def is_better(self, one: str, other: str) -> bool:
        """Return whether `one` is significantly better than `other`."""
        result = _run_test(paired_tests.pair_arms(self.values, one, other), self.rule)
        return result is not None and result.p < 1 - self.level and (result.estimate > 0) == (self.better == "higher")

    def best_arm(self, ranked: Sequence[str], tied: Sequence[str]) -> BestArm:
        """Return the best of the ranked arms, given those that do not differ detectably from the first."""
        leader, rest = ranked[0], [name for name in ranked[1:] if name not in tied]
        if not tied:
            return BestArm(leader, (), False)
        leaders = (leader, *tied)
        ahead = bool(rest) and all(self.is_better(t, r) for t in leaders for r in rest)
        return BestArm(None, leaders, ahead)


def _run_test(pairs: paired_tests.PairedLogs, rule: StoppingRuleName = "fixed") -> paired_tests.PairedTestResult | None:
    """Return the estimate and p of one arm against another; None if there are too few blocks."""
    method = choose_method(pairs, rule)
    return TESTS[method](pairs.base, pairs.other, []) if method else None


def find_best_arm(
    values: pd.DataFrame,
    arms: Sequence[str],
    baseline: str,
    *,
    better: Direction = "higher",
    level: float = 0.95,
    rule: StoppingRuleName = "fixed",
) -> BestArm:
    """Find the arm that beats every other arm (two-sided tests, not adjusted: the largest p must be significant).

    `arms` are the baseline and the treatments that could be compared with it. Fewer than three arms with
    enough blocks for a test have no best one: the result is then `NO_BEST_ARM`. `values` are as in `compare`.
    """
    tests = _ArmTests(values, better, level, rule)
    ranked = tests.ranked(arms, baseline)
    if len(ranked) < MIN_ARMS:
        return NO_BEST_ARM
    return tests.best_arm(ranked, [name for name in ranked[1:] if not tests.is_better(ranked[0], name)])


def compare_with_best(
    values: pd.DataFrame,
    arms: Sequence[str],
    baseline: str,
    *,
    better: Direction = "higher",
    **options: Unpack[ComparisonOptions],
) -> DeclaredComparisons | None:
    """Compare every arm with the one observed best; None if fewer than three arms have enough blocks for a test.

    `arms` are the baseline and the treatments that could be compared with it.
    """
    level, rule = options.get("level", 0.95), options.get("rule", "fixed")
    tests = _ArmTests(values, better, level, rule)
    ranked = tests.ranked(arms, baseline)
    if len(ranked) < MIN_ARMS:
        return None
    observed_best, family_size, sign = ranked[0], len(ranked) - 1, 1 if better == "higher" else -1
    unadjusted = [
        compare_pairs(paired_tests.pair_arms(values, name, observed_best), family_size=family_size, **options)
        for name in arms if name in ranked and name != observed_best
    ]  # fmt: skip
    largest_p = max(c.p if c.p is not None and sign * (c.effect or 0.0) < 0 else 1.0 for c in unadjusted)
    comparisons = [
        replace(c, p_adjusted=largest_p if largest_p < 1 - level else _p_against_any(values, c, ranked, rule))
        for c in unadjusted
    ]
    beaten = {
        c.treatment
        for c in comparisons
        if sign * (c.effect or 0.0) < 0 and c.p_adjusted is not None and c.p_adjusted < 1 - level
    }
    best_arm = tests.best_arm(ranked, [name for name in ranked[1:] if name not in beaten])
    return DeclaredComparisons(observed_best, comparisons, best_arm)


def _p_against_any(
    values: pd.DataFrame, comparison: Comparison, ranked: Sequence[str], rule: StoppingRuleName
) -> float | None:
    """Return p of the best arm against this one, adjusted for all arms compared with it; at least the plain p."""
    if comparison.p is None:
        return None
    pairs = {
        name: paired_tests.pair_arms(values, name, comparison.treatment)
        for name in ranked
        if name != comparison.treatment
    }
    plain_p = {name: result.p for name, p in pairs.items() if (result := _run_test(p, rule))}
    adjusted = _adjust_p([pairs[name] for name in plain_p], list(plain_p.values()), rule)
    return max(comparison.p, dict(zip(plain_p, adjusted, strict=True))[comparison.baseline])


def compare_declared(
    values: pd.DataFrame,
    baseline: str,
    others: Sequence[str],
    contrasts: Contrasts,
    *,
    better: Direction = "higher",
    comparable: Callable[[Comparison], bool] = lambda comparison: comparison.p is not None,
    **options: Unpack[ComparisonOptions],
) -> DeclaredComparisons:
    """Compare the treatments in the way that the study declares as `contrasts`.

    `others` are all treatments but the baseline, in the order of the study, which "adjacent" follows. An arm can be the
    best one only if `comparable` is true for its comparison with the baseline. With fewer than three such arms,
    contrasts "best" become comparisons with the baseline.
    """
    named: ComparisonOptions = {**options, "names_reference": True}
    if contrasts == "adjacent":
        pairs = list(zip(others, (baseline, *others), strict=False))
        comparisons = compare_contrasts(values, pairs, **named)
        return DeclaredComparisons(baseline, comparisons, NO_BEST_ARM)
    comparisons = compare_contrasts(values, [(name, baseline) for name in others], **options)
    if contrasts == "baseline":
        return DeclaredComparisons(baseline, comparisons)
    arms = [baseline, *(c.treatment for c in comparisons if comparable(c))]
    best = compare_with_best(values, arms, baseline, better=better, **named)
    if best is None:
        return DeclaredComparisons(baseline, comparisons)
    pairs = [(name, best.reference) for name in others if name not in arms]
    rest = compare_contrasts(values, pairs, **named)
    return best._replace(comparisons=[*best.comparisons, *rest])
