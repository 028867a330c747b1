"""Every word about claims: what is checked, how a claim fares, what the evidence is. Stated, never advised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from loadbook.core.units import NBSP, p_value, percent
from loadbook.core.units import size as size_of
from loadbook.design.claim import Claim
from loadbook.stats.result import ErrorSummary, Forecast, Interval, Verdict
from loadbook.stats.wording.errors import rate_words
from loadbook.stats.wording.sentences import margin_text, more_blocks, phrase

Outcome = Literal["holds", "contradicted", "undecided", "unchecked", "not-run"]
Could = Literal["yes", "in part", "no", "not known"]

OUTCOMES: dict[Outcome, tuple[str, str]] = {
    "holds": ("✓", "holds here"),
    "contradicted": ("✗", "does not hold here"),
    "undecided": ("?", "undecided here"),
    "unchecked": ("–", "cannot be checked here"),
    "not-run": ("·", "not yet run here"),
}
MAX_NAMES = 4

ONE_RUN_ERRORS = "One run each, and errors come in bursts: two equal treatments can differ like that."
NO_COUNTS = "The article gives no counts of errors for both."
NO_NUMBERS = "The article gives no two numbers for it."
BOTH_OFFERED = "Both values lie at the offered rate, which is the tool’s setting: no evidence either way."
ONE_RUN_EXCLUDES_NOTHING = "One run each: without an interval no difference is excluded."
ONE_RUN_SLOPE = "One run for each size: a slope without an interval."
OPPOSITE = "Its own two numbers point the other way."
SCATTER_UNKNOWN = "One run each; how much runs scatter is not known."
LUCKY_LEADER = "That it leads is the largest of several single runs, and in part luck."
LOWER_BOUND = "Its value lies at the offered rate, so that the size is a lower bound."


def check(claim: Claim, margin: float) -> str:
    """Return what the claim must pass to hold."""
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
        low, high = (_used(claim, bound) for bound in claim.used)
        return f"holds if the {claim.role} uses {low} to {high} of its {RESOURCES[claim.resource or '']} in every trial"
    if claim.slope:
        return f"holds if the log-log slope lies in {' to '.join(map(_number, claim.slope))}"
    joint = f" (geometric mean of {len(claim.further) + 1} ratios)" if claim.further else ""
    return f"holds if {texts[claim.check]}{joint}"


RESOURCES = {"cpu": "CPU", "network": "network", "memory": "memory"}


def _used(claim: Claim, value: float) -> str:
    return size_of(value) if claim.resource == "memory" else f"{100 * value:.0f}{NBSP}%"


def used(claim: Claim, label: str, low: float, high: float, trials: int) -> str:
    """Return what was used by a treatment, between the trial that used least and the one that used most."""
    bounds = " to ".join(dict.fromkeys(_used(claim, bound) for bound in (low, high)))
    at_most = "at most " if claim.resource == "memory" else ""
    return (
        f"{label}: the {claim.role} used {at_most}{bounds} of its {RESOURCES[claim.resource or '']}, {trials} trials."
    )


def used_number(claim: Claim, value: float) -> str:
    """Return the same in few characters."""
    return _used(claim, value)


def not_watched(claim: Claim, label: str) -> str:
    """Return why a claim about a resource cannot be checked."""
    what = f"the {RESOURCES[claim.resource or '']} of the {claim.role}"
    lacks = ", or its link’s rate is not known" if claim.resource == "network" else ""
    return f"No monitor recorded {what} under {label}{lacks}."


def compared(verdict: Verdict, label: str, against: str | None) -> str:
    """Return the sentence on a comparison; `against` is None where that is the run's baseline."""
    return f"{label}{phrase(verdict, against=against)}"


def size(claimed: float, interval: Interval) -> str:
    """Return where the article's change lies against our interval."""
    low, high = interval
    place = "inside" if low <= claimed <= high else "above" if claimed > high else "below"
    return f"The article’s {percent(claimed)} lies {place} that interval."


def too_small(claimed: float) -> str:
    """Return why an equivalence does not contradict a claim of a small change."""
    return f"The article’s {percent(claimed)} is not larger."


def may_be_small(verdict: Verdict) -> str:
    """Return what an interval that crosses the margin leaves open."""
    return f"It may be smaller than the {margin_text(verdict.margin)} that matters. {more_blocks(verdict)}"


def ahead(label: str, rivals: int, largest_p: float) -> str:
    """Return that a treatment beats every rival."""
    every = "the other one" if rivals == 1 else f"each of the other {rivals}"
    return f"{label} is ahead of {every} (largest p {p_value(largest_p)}); its lead is likely a little overstated."


def tied(label: str, others: Sequence[str], number: int, forecast: str) -> str:
    """Return with which rivals a treatment is tied."""
    of = f", {len(others)} of its {number} rivals" if number > 1 else ""
    return f"{label} is not shown to be ahead of {names(others)}{of}. {forecast}".strip()


def beaten(rival_sentence: str) -> str:
    """Return that a rival is ahead."""
    return f"A rival is ahead of it: {rival_sentence}"


def most_blocks(forecasts: Sequence[Forecast]) -> str:
    """Return how many more blocks would decide the last of several comparisons."""
    about = [f.about for f in forecasts if f.about is not None]
    if len(about) < len(forecasts):
        return "Not reachable at this noise (over 60 blocks): widen the margin or quieten the host."
    most = max(about, default=0)
    return f"About {most} more block{'' if most == 1 else 's'} would decide." if most else ""


def lacks(labels: Sequence[str]) -> str:
    """Return which arms of a claim were not run."""
    return f"Not run: {names(labels)}."


def not_compared(labels: Sequence[str]) -> str:
    """Return which arms of a claim were run and must not be compared."""
    return f"Not compared: {names(labels)}."


def all_served(labels: Sequence[str]) -> str:
    """Return which arms served all of an open load."""
    return f"All of the offered load was served by {names(labels)}: that rate is the generator’s setting; offer more."


def not_run(labels: Sequence[str], study: str, subset: str | None) -> str:
    """Return what was not run, and the command that runs it."""
    option = f" --subset {subset}" if subset else ""
    return f"{lacks(labels)} To run: loadbook run {study}{option}."


def nowhere(study: str, subset: str | None) -> str:
    """Return that a study has no run."""
    return f"The study has no run. To run: loadbook run {study}{f' --subset {subset}' if subset else ''}."


def not_measured(metric: str, statistic: str, tools: Sequence[str]) -> str:
    """Return that no trial has a value of the claim's metric."""
    what = metric if statistic == "value" else f"{metric} {statistic}"
    return f"No trial has a value of {what}: {' and '.join(tools)} did not print it."


def errors(ours: ErrorSummary, theirs: ErrorSummary, label: str, against: str) -> str:
    """Return in how many trials each of two arms had errors."""
    said = f"{label}: errors in {_trials(ours)}; {against}: in {_trials(theirs)}"
    return f"{said} (p {p_value(ours.p)}){rate_words(ours)}."


def few_errors(label: str, share: float, margin: float) -> str:
    """Return the bound on the trials with errors of an arm that was said to have many."""
    return f"At most {_share(share)} of {label}’s trials have errors, less than the {_share(margin)} that matters."


def nothing_to_remove(label: str, share: float) -> str:
    """Return why the removal of errors cannot be checked."""
    return f"There was nothing to remove: at most {_share(share)} of {label}’s trials have errors."


def error_forecast(more: int | None) -> str:
    """Return how many more blocks would show a difference in trials with errors, if shares stay as they are."""
    if more is None:
        return "At these shares more blocks would not decide (over 60)."
    return f"At these shares about {more} more block{'' if more == 1 else 's'} would decide."


def no_errors_counted() -> str:
    """Return that errors were not counted."""
    return "Errors were not counted in any trial of these treatments."


def cells(counts: Sequence[tuple[str, int, int]], p: float) -> str:
    """Return trials with errors by cell: words for the cell, trials with errors, trials."""
    said = "; ".join(f"{name}: {failing} of {trials}" for name, failing, trials in counts)
    return f"Trials with errors: {said} (interaction by block, p {p_value(p)})."


def of_two(ours: tuple[int, int], theirs: tuple[int, int]) -> str:
    """Return trials with errors of two arms in few characters."""
    return f"errors in {ours[0]} of {ours[1]} against {theirs[0]} of {theirs[1]} trials"


def per_request(ratio: float) -> str:
    """Return the ratio of errors per request in few characters."""
    return f"{ratio:.2g} times as many errors per request"


def slopes(slope: float, interval: Interval, blocks: int, points: int) -> str:
    """Return the slope with its interval and what it says of the regime."""
    low, high = (_number(bound) for bound in interval)
    said = f"log-log slope {_number(slope)} (90{NBSP}% interval {low} to {high}), {points} sizes, {blocks} blocks"
    return f"{said}: {regime(slope)}."


def slope_number(slope: float, interval: Interval) -> str:
    """Return a slope with its interval in few characters."""
    return f"slope {_number(slope)} ({' to '.join(map(_number, interval))})"


def no_numbers(factor: str, strange: Sequence[str]) -> str:
    """Return why no slope can be computed over a factor."""
    if strange:
        return f"{factor} is not a positive number for {names(strange)}."
    return f"A slope needs at least two values of {factor}."


def regime(slope: float) -> str:
    """Return which cost rules where a rate falls with size by this log-log slope."""
    if slope > -0.1:
        return "the cost per request rules, the size hardly matters"
    return "the cost per byte rules, bytes per second hardly change" if slope < -0.9 else "both costs count"


def by_chance(chance: float) -> str:
    """Return how often a pair of equal treatments differs as much as the article's pair."""
    often = f"{_share(chance)}" if chance >= 0.01 else f"less than 1{NBSP}%"
    return f"One run each: with the scatter seen here, equal treatments differ by as much in {often} of pairs."


def too_few_blocks(blocks: int, needed: int) -> str:
    """Return that there are too few complete blocks."""
    return f"Only {blocks} complete block{'' if blocks == 1 else 's'}, {needed} are needed."


def names(labels: Sequence[str]) -> str:
    """Return names as a list, a long one shortened; names may have commas."""
    shown = (
        list(labels) if len(labels) <= MAX_NAMES else [*labels[: MAX_NAMES - 1], f"{len(labels) - MAX_NAMES + 1} more"]
    )
    return "; ".join(shown)


def _trials(found: ErrorSummary) -> str:
    return f"{found.trials_with_errors} of {found.trials} trials"


def _share(share: float) -> str:
    return percent(share, 0, signed=False)


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")
