"""Sentences on errors, and on treatments whose requests are answered with errors."""

from __future__ import annotations

from loadbook.core.units import NBSP, format_p_value, format_percent, join_words, pluralize
from loadbook.stats.results import AnalysisRow, ErrorSummary

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
    """Return the sentence on the errors of one treatment.

    `compared_with` are the errors of the reference (None: not compared), `against` is its label (None: the baseline).
    """
    if not errors.trials:
        return "errors: not measured."
    name = against or "the baseline"
    trials = pluralize(errors.trials, "trial")
    other_count = f"{compared_with.trials_with_errors} of {compared_with.trials}" if compared_with else ""
    if not errors.trials_with_errors:
        text = f"no errors in {errors.trials} of {trials}"
        bound = f"(up to {format_percent(errors.upper_share or 0, 0, signed=False)} of trials could still have some)"
        if errors.kind == "fewer" and other_count:
            text += f", fewer than {name}: 0 against {other_count}{_unconfirmed_text(errors)}"
        return f"{text} {bound}."
    by_frequency = sorted(errors.by_class.items(), key=lambda item: -item[1])
    classes = ", ".join(f"{number:,} {ERROR_CLASS_NOUNS[key][number != 1]}" for key, number in by_frequency)
    counts_text = f"{errors.trials_with_errors} of {trials} had errors ({classes or f'{errors.errors:,} in all'})"
    against_text = f" against {other_count} of {name}" if other_count else ""
    if errors.kind in ("more", "fewer"):
        return f"{errors.kind} errors: {counts_text}{against_text}{rate_ratio_text(errors)}{_unconfirmed_text(errors)}."
    return f"{counts_text}{against_text}{': undecided' if errors.kind == 'undecided' and other_count else ''}."


def rate_ratio_text(errors: ErrorSummary) -> str:
    """Return the ratio of errors per request to the other arm's, after a comma; "" if it is not known."""
    if errors.rate_ratio is None or errors.rate_ci95 is None:
        return ""
    low, high = errors.rate_ci95
    return f", {errors.rate_ratio:.2g} times as many per request (95{NBSP}% interval {low:.2g} to {high:.2g})"


def _unconfirmed_text(errors: ErrorSummary) -> str:
    """Return a note if the check by blocks does not confirm the difference in errors; else ""."""
    if errors.p_blocks is None or errors.p_blocks < ERROR_ALPHA:
        return ""
    return f", which the single blocks do not confirm (p {format_p_value(errors.p_blocks)})"


# statuses that a service answers to requests that it does not want to serve, or not now
REFUSAL_STATUSES = ("401", "403", "408", "429", "503", "4xx", "5xx")


def refusal_text(row: AnalysisRow) -> str:
    """Return the text on a treatment with error responses: their share, statuses and reason; "" without them.

    It has no full stop.
    """
    refusal = row.errors.refusal
    if refusal is None:
        return ""
    share = "its requests"
    if refusal.share is not None:
        share = f"{format_percent(refusal.share, 0, signed=False)} of its requests"
    noun = "status" if len(refusal.statuses) == 1 else "statuses"
    statuses = f" with {noun} {join_words(list(refusal.statuses))}" if refusal.statuses else ""
    verb = "refuses" if set(refusal.statuses) <= set(REFUSAL_STATUSES) else "answers"
    log = f" (its log: {refusal.log})" if refusal.log else ""
    return f"{row.label} {verb} {share}{statuses}{log}"
