"""Sentences about errors: in how many trials, of which class, and against what (report.md section 4)."""

from __future__ import annotations

from loadbook.core.units import NBSP, p_value, percent
from loadbook.stats.result import ErrorSummary

ERROR_ALPHA = 0.05
CLASS_WORDS = {
    "errors_connect": ("failed connection", "failed connections"),
    "errors_timeout": ("time-out", "time-outs"),
    "errors_read": ("reset or failed receive", "resets or failed receives"),
    "errors_write": ("failed send", "failed sends"),
    "errors_status": ("error response", "error responses"),
    "errors_length": ("response of the wrong length", "responses of the wrong length"),
    "errors_driver": ("failure at the driver's own limits", "failures at the driver's own limits"),
    "errors_other": ("other failure", "other failures"),
}


def errors_sentence(errors: ErrorSummary, compared_with: ErrorSummary | None = None, against: str | None = None) -> str:
    """Return the sentence on one treatment's errors.

    Parameters
    ----------
    compared_with : errors of what it is compared with; None says nothing of them.
    against : the name of that, None for the baseline.
    """
    if not errors.trials:
        return "errors: not measured."
    name = against or "the baseline"
    trials = f"{errors.trials_with_errors} of {_trials(errors.trials)}"
    theirs = f"{compared_with.trials_with_errors} of {compared_with.trials}" if compared_with else ""
    if not errors.trials_with_errors:
        clean = f"no errors in {errors.trials} of {_trials(errors.trials)}"
        bound = f"(up to {_whole(errors.upper_share or 0)} of trials could still have some)"
        if errors.kind == "fewer" and theirs:
            clean += f", fewer than {name}: 0 against {theirs}{_unconfirmed(errors)}"
        return f"{clean} {bound}."
    what = f"{trials} had errors ({_classes(errors)})"
    beside = f" against {theirs} of {name}" if theirs else ""
    if errors.kind in ("more", "fewer"):
        return f"{errors.kind} errors: {what}{beside}{rate_words(errors)}{_unconfirmed(errors)}."
    return f"{what}{beside}{': undecided' if errors.kind == 'undecided' and theirs else ''}."


def _classes(errors: ErrorSummary) -> str:
    if not errors.by_class:
        return f"{errors.errors:,} in all"
    named = sorted(errors.by_class.items(), key=lambda item: -item[1])
    return ", ".join(f"{number:,} {CLASS_WORDS[key][number != 1]}" for key, number in named)


def rate_words(errors: ErrorSummary) -> str:
    """Return how many times as many errors per request as the other arm has, to follow a comma; "" if not known."""
    if errors.rate_ratio is None or errors.rate_ci95 is None:
        return ""
    low, high = errors.rate_ci95
    return f", {errors.rate_ratio:.2g} times as many per request (95{NBSP}% interval {low:.2g} to {high:.2g})"


def _unconfirmed(errors: ErrorSummary) -> str:
    """Say so where the check by blocks does not find what the trials show."""
    if errors.p_blocks is None or errors.p_blocks < ERROR_ALPHA:
        return ""
    return f", which the single blocks do not confirm (p {p_value(errors.p_blocks)})"


def _whole(share: float) -> str:
    return percent(share, 0, signed=False)


def _trials(number: int) -> str:
    return f"{number} trial{'' if number == 1 else 's'}"
