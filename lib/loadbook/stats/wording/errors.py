"""Sentences about errors: in how many trials, of which class, and against what (report.md section 4)."""

from __future__ import annotations

from loadbook.core.units import NBSP, format_p_value, format_percent
from loadbook.stats.result import ErrorSummary

ERROR_ALPHA = 0.05
ERROR_CLASS_NOUNS = {
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
    trials = f"{errors.trials_with_errors} of {_trial_count_text(errors.trials)}"
    other_count = f"{compared_with.trials_with_errors} of {compared_with.trials}" if compared_with else ""
    if not errors.trials_with_errors:
        no_errors_text = f"no errors in {errors.trials} of {_trial_count_text(errors.trials)}"
        bound = f"(up to {_whole_percent(errors.upper_share or 0)} of trials could still have some)"
        if errors.kind == "fewer" and other_count:
            no_errors_text += f", fewer than {name}: 0 against {other_count}{_unconfirmed_text(errors)}"
        return f"{no_errors_text} {bound}."
    counts_text = f"{trials} had errors ({_classes_text(errors)})"
    against_text = f" against {other_count} of {name}" if other_count else ""
    if errors.kind in ("more", "fewer"):
        return f"{errors.kind} errors: {counts_text}{against_text}{rate_ratio_text(errors)}{_unconfirmed_text(errors)}."
    return f"{counts_text}{against_text}{': undecided' if errors.kind == 'undecided' and other_count else ''}."


def _classes_text(errors: ErrorSummary) -> str:
    if not errors.by_class:
        return f"{errors.errors:,} in all"
    by_frequency = sorted(errors.by_class.items(), key=lambda item: -item[1])
    return ", ".join(f"{number:,} {ERROR_CLASS_NOUNS[key][number != 1]}" for key, number in by_frequency)


def rate_ratio_text(errors: ErrorSummary) -> str:
    """Return how many times as many errors per request as the other arm has, to follow a comma; "" if not known."""
    if errors.rate_ratio is None or errors.rate_ci95 is None:
        return ""
    low, high = errors.rate_ci95
    return f", {errors.rate_ratio:.2g} times as many per request (95{NBSP}% interval {low:.2g} to {high:.2g})"


def _unconfirmed_text(errors: ErrorSummary) -> str:
    """Say so where the check by blocks does not find what the trials show."""
    if errors.p_blocks is None or errors.p_blocks < ERROR_ALPHA:
        return ""
    return f", which the single blocks do not confirm (p {format_p_value(errors.p_blocks)})"


def _whole_percent(share: float) -> str:
    return format_percent(share, 0, signed=False)


def _trial_count_text(number: int) -> str:
    return f"{number} trial{'' if number == 1 else 's'}"
