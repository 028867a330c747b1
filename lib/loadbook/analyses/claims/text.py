"""Sentences about claims: the check, the outcome, the evidence. They state, they never advise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from loadbook.core.units import NBSP, format_bytes, format_p_value, format_percent, shorten_list
from loadbook.stats.results import ErrorSummary, Forecast, Interval, Verdict
from loadbook.stats.text import forecast_sentence, margin_text, rate_ratio_text, verdict_phrase
from loadbook.study.model import Claim

ClaimOutcome = Literal["holds", "contradicted", "undecided", "unchecked", "not-run"]
CouldShow = Literal["yes", "in part", "no", "not known"]

OUTCOMES: dict[ClaimOutcome, tuple[str, str]] = {
    "holds": ("✓", "holds here"),
    "contradicted": ("✗", "does not hold here"),
    "undecided": ("?", "undecided here"),
    "unchecked": ("–", "cannot be checked here"),
    "not-run": ("·", "not yet run here"),
}
MAX_NAMES = 3

ONE_RUN_ERRORS = "One run each, and errors come in bursts: two equal treatments can differ like that."
NO_COUNTS = "The article gives no counts of errors for both."
NO_NUMBERS = "The article gives no two numbers for it."
BOTH_OFFERED = "Both values lie at the offered rate, which is the tool’s setting: no evidence either way."
ONE_RUN_EXCLUDES_NOTHING = "One run each: without an interval no difference is excluded."
ONE_RUN_SLOPE = "One run for each size: a slope without an interval."
OPPOSITE = "Its own two numbers point the other way."
SCATTER_UNKNOWN = "One run each; how much runs scatter is not known."
LARGEST_OF_SEVERAL = "That it leads is the largest of several single runs, and in part luck."
LOWER_BOUND = "Its value lies at the offered rate, so that the size is a lower bound."
NO_ERRORS_COUNTED = "Errors were not counted in any trial of these treatments."


def criterion_text(claim: Claim, margin: float) -> str:
    """Return the criterion under which a claim holds."""
    least = margin_text(margin)
    texts = {
        "better": "it is shown to be better",
        "worse": "it is shown to be worse",
        "best": "it is shown to be ahead of every rival",
        "no-loss": f"a loss beyond {least} is excluded",
        "equivalent": f"a difference larger than {least} is excluded",
        "fewer-errors": "it has errors in fewer trials",
        "more-errors": "it has errors in more trials",
        "interaction": "the one removes errors that the other brings",
    }
    if claim.used:
        low, high = (usage_value_text(claim, bound) for bound in claim.used)
        return (
            f"holds if the {claim.role} uses {low} to {high} of its {RESOURCE_NOUNS[claim.resource or '']} "
            "in every trial"
        )
    if claim.slope:
        return f"holds if the log-log slope lies in {' to '.join(map(_number_text, claim.slope))}"
    joint = f" (geometric mean of {len(claim.further) + 1} ratios)" if claim.further else ""
    return f"holds if {texts[claim.effective_kind]}{joint}"


RESOURCE_NOUNS = {"cpu": "CPU", "network": "network", "memory": "memory"}


def usage_value_text(claim: Claim, value: float) -> str:
    """Return the use of a claim's resource in few characters."""
    return format_bytes(value) if claim.resource == "memory" else f"{100 * value:.0f}{NBSP}%"


def usage_sentence(claim: Claim, label: str, low: float, high: float, trials: int) -> str:
    """Return a treatment's use of a resource, from the least of all trials to the most."""
    bounds = " to ".join(dict.fromkeys(usage_value_text(claim, bound) for bound in (low, high)))
    at_most = "at most " if claim.resource == "memory" else ""
    return (
        f"{label}: the {claim.role} used {at_most}{bounds} of its {RESOURCE_NOUNS[claim.resource or '']}, "
        f"{trials} trials."
    )


def not_monitored_sentence(claim: Claim, label: str) -> str:
    """Return why a claim about a resource cannot be checked."""
    resource_text = f"the {RESOURCE_NOUNS[claim.resource or '']} of the {claim.role}"
    lacks = ", or its link’s rate is not known" if claim.resource == "network" else ""
    return f"No monitor recorded {resource_text} under {label}{lacks}."


def comparison_sentence(verdict: Verdict, label: str, against: str | None) -> str:
    """Return the sentence on a comparison; `against` is None where that is the run's baseline."""
    return f"{label}{verdict_phrase(verdict, against=against)}"


def size_sentence(claimed: float, interval: Interval) -> str:
    """Return the place of the article's change relative to our interval."""
    low, high = interval
    position = "inside" if low <= claimed <= high else "above" if claimed > high else "below"
    return f"The article’s {format_percent(claimed)} lies {position} that interval."


def small_claim_sentence(claimed: float) -> str:
    """Return why an equivalence does not contradict a claim of a small change."""
    return f"The article’s {format_percent(claimed)} is not larger."


def maybe_small_sentence(verdict: Verdict) -> str:
    """Return that the interval crosses the margin, and how many more blocks would decide."""
    return f"It may be smaller than the {margin_text(verdict.margin)} that matters. {forecast_sentence(verdict)}"


def ahead_sentence(label: str, rivals: int, largest_p: float) -> str:
    """Return that a treatment is ahead of every rival."""
    rivals_text = "the other one" if rivals == 1 else f"each of the other {rivals}"
    return (
        f"{label} is ahead of {rivals_text} (largest p {format_p_value(largest_p)}); its lead is likely "
        "a little overstated."
    )


def tied_sentence(label: str, others: Sequence[str], number: int, forecast: str) -> str:
    """Return the rivals with which a treatment is tied."""
    of = f", {len(others)} of its {number} rivals" if number > 1 else ""
    return f"{label} is not shown to be ahead of {joined_names(others)}{of}. {forecast}".strip()


def rival_ahead_sentence(rival_sentence: str) -> str:
    """Return that a rival is ahead."""
    return f"A rival is ahead of it: {rival_sentence}"


def joint_forecast_sentence(forecasts: Sequence[Forecast]) -> str:
    """Return how many more blocks would decide the last of several comparisons."""
    about = [f.about for f in forecasts if f.about is not None]
    if len(about) < len(forecasts):
        return "Not reachable at this noise (over 60 blocks): widen the margin or quieten the host."
    most = max(about, default=0)
    return f"About {most} more block{'' if most == 1 else 's'} would decide." if most else ""


def missing_arms_sentence(labels: Sequence[str]) -> str:
    """Return the arms of a claim that were not run."""
    return f"Not run: {joined_names(labels)}."


def all_served_sentence(labels: Sequence[str]) -> str:
    """Return the arms that served all of an open load."""
    return (
        f"All of the offered load was served by {joined_names(labels)}: that rate is the generator’s "
        "setting; offer more."
    )


def not_run_sentence(labels: Sequence[str], study: str, subset: str | None) -> str:
    """Return the arms that were not run, and the command that runs them."""
    option = f" --subset {subset}" if subset else ""
    return f"{missing_arms_sentence(labels)} To run: loadbook run {study}{option}."


def no_run_sentence(study: str, subset: str | None) -> str:
    """Return that a study has no run."""
    return f"The study has no run. To run: loadbook run {study}{f' --subset {subset}' if subset else ''}."


def not_measured_sentence(metric: str, statistic: str, tools: Sequence[str]) -> str:
    """Return that no trial has a value of the claim's metric."""
    metric_text = metric if statistic == "value" else f"{metric} {statistic}"
    return f"No trial has a value of {metric_text}: {' and '.join(tools)} did not print it."


def error_trials_sentence(
    treatment_errors: ErrorSummary, against_errors: ErrorSummary, label: str, against: str
) -> str:
    """Return the number of trials with errors of two arms."""
    counts = [f"{e.trials_with_errors} of {e.trials} trials" for e in (treatment_errors, against_errors)]
    p = f"p {format_p_value(treatment_errors.p)}"
    return f"{label}: errors in {counts[0]}; {against}: in {counts[1]} ({p}){rate_ratio_text(treatment_errors)}."


def few_errors_sentence(label: str, share: float, margin: float) -> str:
    """Return the upper bound of an arm's share of trials with errors."""
    return (
        f"At most {_share_text(share)} of {label}’s trials have errors, less than the {_share_text(margin)} "
        "that matters."
    )


def nothing_to_remove_sentence(label: str, share: float) -> str:
    """Return why the removal of errors cannot be checked."""
    return f"There was nothing to remove: at most {_share_text(share)} of {label}’s trials have errors."


def error_forecast_sentence(more: int | None) -> str:
    """Return how many more blocks would show a difference in trials with errors, if shares stay as they are."""
    if more is None:
        return "At these shares more blocks would not decide (over 60)."
    return f"At these shares about {more} more block{'' if more == 1 else 's'} would decide."


def cells_sentence(counts: Sequence[tuple[str, int, int]], p: float) -> str:
    """Return trials with errors by cell: words for the cell, trials with errors, trials."""
    cells_text = "; ".join(f"{name}: {failing} of {trials}" for name, failing, trials in counts)
    return f"Trials with errors: {cells_text} (interaction by block, p {format_p_value(p)})."


def two_arms_text(treatment_trials: tuple[int, int], against_trials: tuple[int, int]) -> str:
    """Return trials with errors of two arms in few characters."""
    return (
        f"errors in {treatment_trials[0]} of {treatment_trials[1]} against {against_trials[0]} of "
        f"{against_trials[1]} trials"
    )


def per_request_text(ratio: float) -> str:
    """Return the ratio of errors per request in few characters."""
    return f"{ratio:.2g} times as many errors per request"


def slope_sentence(slope: float, interval: Interval, blocks: int, points: int) -> str:
    """Return the slope with its interval, and the cost that it shows to rule."""
    low, high = (_number_text(bound) for bound in interval)
    text = f"log-log slope {_number_text(slope)} (90{NBSP}% interval {low} to {high}), {points} sizes, {blocks} blocks"
    return f"{text}: {regime_text(slope)}."


def slope_text(slope: float, interval: Interval) -> str:
    """Return a slope with its interval in few characters."""
    return f"slope {_number_text(slope)} ({' to '.join(map(_number_text, interval))})"


def no_slope_sentence(factor: str, strange: Sequence[str]) -> str:
    """Return why no slope can be computed over a factor."""
    if strange:
        return f"{factor} is not a positive number for {joined_names(strange)}."
    return f"A slope needs at least two values of {factor}."


def regime_text(slope: float) -> str:
    """Return the cost that rules at this log-log slope of rate over size."""
    if slope > -0.1:
        return "the cost per request rules, the size hardly matters"
    return "the cost per byte rules, bytes per second hardly change" if slope < -0.9 else "both costs count"


def chance_sentence(chance: float) -> str:
    """Return the share of pairs of equal treatments that differ as much as the article's pair."""
    often = f"{_share_text(chance)}" if chance >= 0.01 else f"less than 1{NBSP}%"
    return f"One run each: with the scatter seen here, equal treatments differ by as much in {often} of pairs."


def too_few_blocks_sentence(blocks: int, needed: int) -> str:
    """Return that there are too few complete blocks."""
    return f"Only {blocks} complete block{'' if blocks == 1 else 's'}, {needed} are needed."


def joined_names(labels: Sequence[str]) -> str:
    """Return names as a list, a long one shortened; names may have commas."""
    return "; ".join(shorten_list(labels, MAX_NAMES))


def _share_text(share: float) -> str:
    return format_percent(share, 0, signed=False)


def _number_text(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")
