"""Rules about how many requests were answered, and how many were not."""

from __future__ import annotations

from collections.abc import Iterator

from loadbook.core.units import format_percent
from loadbook.gates.base import Evidence, RuleHit

SOCKET_ERRORS = ("errors_connect", "errors_timeout", "errors_read", "errors_write", "errors_length", "errors_other")


def zero_work(evidence: Evidence) -> Iterator[RuleHit]:
    """Refuse a trial without any response, or without one that counts."""
    requests, ok = evidence.total("requests", "count"), evidence.total("ok", "count")
    if requests is None and ok is None:
        yield evidence.unchecked("zero_work", "the tool reports neither requests nor successes")
    elif not requests and requests is not None:
        yield evidence.hit("zero_work", "invalid", "the tool completed no request")
    elif ok == 0:
        yield evidence.hit("zero_work", "invalid", f"none of {requests or 0:,.0f} responses was a success")


def error_responses(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge responses with status 400 and above as a share of all responses."""
    errors, requests = evidence.total("errors_status", "count"), evidence.total("requests", "count")
    if errors is None or requests is None:
        yield from _non_2xx_hit(evidence, requests)
    elif errors > 0:
        yield from _error_share_hit(evidence, "error_responses", errors, max(requests, errors), "responses were errors")


def _non_2xx_hit(evidence: Evidence, requests: float | None) -> Iterator[RuleHit]:
    """Judge a tool that tells good codes from others only (ab): where the page itself is 2xx, no other may occur."""
    good = evidence.total("status_2xx", "count")
    if good is None or not requests:
        yield evidence.unchecked("error_responses", "the tool reports no error responses")
    elif evidence.record.workload.get("expect_status", 200) // 100 != 2:
        yield evidence.unchecked("error_responses", "the tool does not tell errors from the redirects expected")
    elif requests > good:
        yield from _error_share_hit(evidence, "error_responses", requests - good, requests, "responses were not 2xx")


def socket_errors(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge failed connections and transfers as a share of all attempts; the driver's own limits are not among them."""
    names = [n for n in SOCKET_ERRORS if n != "errors_timeout" or "timeouts_weighted" not in evidence.parser_doubts]
    counts = [found for name in names if (found := evidence.total(name, "count")) is not None]
    requests = evidence.total("requests", "count")
    if not counts or requests is None:
        yield evidence.unchecked("socket_errors", "the tool reports no connection errors")
    elif sum(counts) > 0:
        yield from _error_share_hit(evidence, "socket_errors", sum(counts), requests + sum(counts), "attempts failed")


def _error_share_hit(evidence: Evidence, name: str, errors: float, total: float, noun: str) -> Iterator[RuleHit]:
    share = errors / total
    observation = f"{errors:,.0f} of {total:,.0f} {noun} ({format_percent(share, 2, signed=False)})"
    if share > evidence.thresholds.max_error_share:
        yield evidence.hit(name, "invalid", observation)
    elif share > evidence.thresholds.doubt_error_share:
        yield evidence.hit(name, "doubt", observation)
    else:
        yield evidence.hit(name, "note", observation)


def driver_limits(evidence: Evidence) -> Iterator[RuleHit]:
    """Failures at the generator's own limits make its results meaningless (httperf's manual)."""
    errors = evidence.total("errors_driver", "count")
    if errors:
        yield evidence.hit("driver_limits", "invalid", f"{errors:,.0f} attempts failed on the driver itself")
